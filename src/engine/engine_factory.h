// Ways to an Engine for the rooms above: with the text side that doors need, or from parts made elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runner.h"
#include "engine/text_model.h"
#include "quern/engine.h"
#include "quern/status.h"
#include "text/tokenizer.h"

namespace quern {

// A model as doors see it: text in and out, and an engine for the ids. Both come from one reading of the file.
struct OpenedModel {
  std::shared_ptr<const TextModel> text;
  std::unique_ptr<Engine> engine;
};
Result<OpenedModel> open_model(const EngineOptions& options);

struct EngineParts {
  std::unique_ptr<Runner> runner;              // without KV storage: its size follows from the options
  std::shared_ptr<const Tokenizer> tokenizer;  // null: events carry no text
  std::vector<int32_t> eos_ids;                // end an answer unless ignore_eos
  std::unique_ptr<Runner> draft;               // a smaller model of the same vocabulary, or null
};
Result<std::unique_ptr<Engine>> create_engine(EngineParts parts, const EngineOptions& options);

}  // namespace quern
