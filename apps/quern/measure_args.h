// Options that `perplexity` and `bench` share: how the model is run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "engine/runner.h"

namespace quern::cli {

struct MeasureArgs {
  std::string model;
  EngineOptions engine;
  bool json = false;
};
void add_measure_options(CLI::App& command, MeasureArgs& args);

// Opens and loads. `max_logits_rows` of the options is the caller's.
Result<std::unique_ptr<Runner>> load_runner(const std::filesystem::path& path, const RunnerOptions& options);

}  // namespace quern::cli
