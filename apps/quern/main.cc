// The command line: parses, picks a subcommand, returns its exit code. Every subcommand is a door over the rooms in
// src/.
#include <cstdio>

#include "command.h"

namespace quern::cli {
// One line per subcommand, in the order of `quern --help`; each is defined in its cmd_*.cc.
void add_pull(CLI::App& app, ExitCode& exit);
void add_list(CLI::App& app, ExitCode& exit);
void add_rm(CLI::App& app, ExitCode& exit);
void add_show(CLI::App& app, ExitCode& exit);
void add_inspect(CLI::App& app, ExitCode& exit);
}  // namespace quern::cli

int main(int argc, char** argv) {
  CLI::App app{"Quern turns a model file into a service.", "quern"};
  app.set_version_flag("--version", "quern 0.1.0");
  app.require_subcommand(1);
  app.fallthrough(false);
  quern::cli::ExitCode exit;
  for (const auto add : {quern::cli::add_pull, quern::cli::add_list, quern::cli::add_rm, quern::cli::add_show,
                         quern::cli::add_inspect}) {
    add(app, exit);
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return quern::cli::report({quern::ErrorCode::kInvalidArgument, error.what()});
  }
  return exit.value;
}
