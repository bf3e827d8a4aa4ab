#include "command.h"

#include <cstdio>
#include <string>

namespace quern::cli {

int report(const Error& error) {
  std::string line = error.message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  std::fprintf(stderr, "quern: %s\n", line.c_str());
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidFile:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported: return 2;
    default: return 1;
  }
}

void finish(const Status& status, ExitCode& exit) {
  exit.value = status ? 0 : report(status.error());
}

}  // namespace quern::cli
