// How a subcommand of `quern` is written: one file `cmd_NAME.cc` with `void add_NAME(CLI::App& app, ExitCode& exit)`,
// which declares the options and sets a callback that runs it. the list of all stands in commands.def.
//
// Data goes to stdout, logs to stderr. Exit 0 done, 1 failed, 2 bad usage or bad input with exactly one line on stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern::cli {

struct ExitCode {
  int value = 0;
};

// Prints "quern: MESSAGE" on one line and returns 2 for what the caller can mend (invalid argument or file, not found,
// unsupported), else 1.
int report(const Error& error);

// Sets exit to 0, or to what report() says of the error in terms of the command's options.
void finish(const Status& status, const CLI::App& command, ExitCode& exit);

// The rooms below name fields ("top_p: 2 is outside …, max_tokens"); whoever typed the command knows them as options
// ("--top-p: …"). Names that are no option of the command stay, and so do all of an error about a file.
Error in_terms_of_options(Error error, const CLI::App& command);

// "FIELD: …" as "NAME: …"; another message as it is.
Error with_name(Error error, std::string_view field, std::string_view name);

// "NAME: MESSAGE".
Error prefixed(Error error, std::string_view name);

// A value of an option that counts something must say how many: CLI11 takes "" for 0.
void refuse_empty_numbers(CLI::App& app);

}  // namespace quern::cli
