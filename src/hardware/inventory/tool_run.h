// Runs a program that tells about devices: found on a path given here, without a shell, for a limited time, and read up
// to a limited size. Such programs hang when their driver does; one that cannot even be killed is not started again
// until it is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct ToolLimits {
  std::chrono::milliseconds time_max{8000};  // a machine of many GPUs without persistence mode takes seconds
  size_t bytes_max = 1 << 20;                // of its output
};

enum class ToolEnd : uint8_t {
  kDone,       // it ended by itself with exit status 0
  kAbsent,     // no such program on the path
  kFailed,     // it could not be started, or ended with another status or by a signal
  kTimeout,    // killed
  kTooMuch,    // wrote more than bytes_max: killed
  kCancelled,  // the caller stopped: killed
};

struct ToolOutput {
  ToolEnd end = ToolEnd::kAbsent;
  std::string text;     // stdout, as far as it was read
  std::string message;  // of what is not kDone: one line that names the program
};

// The first executable file of that name in a folder of `path` ("/usr/bin:/bin"; relative folders are passed over);
// empty: there is none.
std::string find_on_path(std::string_view path, std::string_view name);

// Blocks; any thread. stdin is empty, the environment is ours with LC_ALL=C and without keys and
// tokens, no descriptor but the three is inherited.
ToolOutput run_tool(std::string_view path, std::string_view name, std::span<const std::string> arguments,
                    const ToolLimits& limits, const std::stop_token& stop);

}  // namespace quern
