// Models of `quern serve`: which task each has, and loading them.
#pragma once

#include <string>
#include <vector>

#include "quern/engine.h"
#include "server/log.h"
#include "server/metrics/metrics.h"
#include "server/model_table.h"

namespace quern::cli {

struct ServeModelsOptions {
  std::vector<std::string> models;
  std::string served_name;         // the id of the only model; empty: its own
  std::vector<std::string> tasks;  // "embed", or "MODEL=embed"
  std::string tool_call_parser = "auto";
  std::string reasoning_parser = "auto";
  EngineOptions engine;
};

// Loads every model into `table`. kInvalidArgument naming the option or the model.
Status load_models(const ServeModelsOptions& options, Metrics& metrics, const Log& log, ModelTable& table);

}  // namespace quern::cli
