// `quern serve --config FILE`: settings of the file become those of the command line, where that has none of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "quern/engine.h"
#include "quern/status.h"

namespace quern::cli {

// Where the file's settings go that are no option of their own.
struct ConfigTargets {
  std::vector<std::string>& models;
  bool models_given = false;  // on the command line: then the file's are not looked at
  EngineOptions& engine;
};

// After `command` has been parsed. An option that was given stays. Errors name the file, the line and the key's path.
Status apply_config(const std::string& file, CLI::App& command, ConfigTargets targets);

}  // namespace quern::cli
