// Models of `quern serve`: which task each has, and loading them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/engine.h"
#include "server/log.h"
#include "server/metrics/metrics.h"
#include "server/model_table.h"

namespace quern::cli {

struct ServeModelsOptions {
  std::vector<std::string> models;
  std::optional<std::string> served_name;  // the id of the only model; absent: its own
  std::vector<std::string> tasks;          // "embed", or "MODEL=embed" with MODEL as typed or its id
  std::string tool_call_parser = "auto";
  std::string reasoning_parser = "auto";
  EngineOptions engine;
};

// What can be known before anything is pulled or loaded: names, paths, tasks. kInvalidArgument or kNotFound naming the
// option or the model.
Status check_models(const ServeModelsOptions& options);

// Loads every model into `table`, and logs them once all are there. Every file is opened before the first is loaded.
// kInvalidArgument naming the option or the model.
Status load_models(const ServeModelsOptions& options, Metrics& metrics, const Log& log, ModelTable& table);

}  // namespace quern::cli
