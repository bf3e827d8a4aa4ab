// The command line: parses, picks a subcommand, returns its exit code. Every subcommand is a door over the rooms in
// src/; commands.def lists them.
#include <fmt/format.h>

#include <cstdio>

#include "command.h"

namespace quern::cli {
#define QUERN_COMMAND(name) void add_##name(CLI::App& app, ExitCode& exit);
#include "commands.def"
#undef QUERN_COMMAND
}  // namespace quern::cli

int main(int argc, char** argv) {
  CLI::App app{"Quern turns a model file into a service.", "quern"};
  app.set_version_flag("--version", "quern 0.1.0");
  app.require_subcommand(1);
  app.fallthrough(false);
  quern::cli::ExitCode exit;
#define QUERN_COMMAND(name) quern::cli::add_##name(app, exit);
#include "commands.def"
#undef QUERN_COMMAND

  quern::cli::refuse_empty_numbers(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> rest = app.remaining();
    if (!app.get_subcommands().empty()) {
      return quern::cli::report({quern::ErrorCode::kInvalidArgument, error.what()});
    }
    if (rest.empty()) {
      return quern::cli::report(
          {quern::ErrorCode::kInvalidArgument, "COMMAND is missing; quern --help lists them: run, serve, pull, …"});
    }
    return quern::cli::report(
        {quern::ErrorCode::kInvalidArgument, fmt::format("'{}' is no command; quern --help lists them", rest[0])});
  } catch (const CLI::ParseError& error) {
    return quern::cli::report({quern::ErrorCode::kInvalidArgument, error.what()});
  }
  if (exit.value == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    return quern::cli::report({quern::ErrorCode::kIo, "cannot write to stdout"});
  }
  return exit.value;
}
