// How a subcommand of `quern` is written: one file `cmd_NAME.cc` with `void add_NAME(CLI::App& app, ExitCode& exit)`,
// which declares the options and sets a callback that runs it. the list of all stands in commands.def.
//
// Data goes to stdout, logs to stderr. Exit 0 done, 1 failed, 2 bad usage or bad input with exactly one line on stderr.
#pragma once

#include <CLI/CLI.hpp>

#include "quern/status.h"

namespace quern::cli {

struct ExitCode {
  int value = 0;
};

// Prints "quern: MESSAGE" on one line and returns 2 for what the caller can mend (invalid argument or file, not found,
// unsupported), else 1.
int report(const Error& error);

// Sets exit to 0, or to what report() says.
void finish(const Status& status, ExitCode& exit);

}  // namespace quern::cli
