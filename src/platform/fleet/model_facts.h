// What is known of a launch before its worker runs: which model of the catalogue it is, where its files are or what has
// to be pulled, and how much memory one replica takes. Reads the catalogue and the disk; pulls and starts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/fleet/launch_spec.h"
#include "quern/status.h"

namespace quern {

struct ModelFacts {
  std::string model;  // what `quern pull` takes; empty: nothing to pull
  std::string path;   // where its files are; empty: not on this machine
  std::string type;   // as LaunchSpec::model_type
  std::string task;   // of `quern serve --task`; empty: by the files
  std::string family, format, quantization, size;
  std::vector<std::string> abilities;
  int64_t context = 0;          // tokens
  int64_t dimensions = 0;       // of an embedding
  int64_t memory_estimate = 0;  // bytes of one replica; 0: not known
};

// kNotFound for the model, kInvalidArgument and kUnsupported naming the field, kInvalidFile of a file that is here and
// that our engine cannot use.
Result<ModelFacts> read_model_facts(const LaunchSpec& spec);

}  // namespace quern
