#include <algorithm>

#include "base/status.h"
#include "engine/engine_factory.h"

namespace quern {

namespace {

// Ids must mean the same text, or guesses would be right by accident only.
Status check_same_words(const ModelSource& draft, const Tokenizer& tokenizer) {
  QUERN_ASSIGN(const auto text, TextModel::create(draft));
  const int32_t words = std::min(text->tokenizer().vocab_size(), tokenizer.vocab_size());
  for (int32_t id = 0; id < words; ++id) {
    if (text->tokenizer().piece(id) != tokenizer.piece(id)) {
      return invalid_argument(fmt::format("speculative_model: its token {} is '{}', the model's '{}'", id,
                                          text->tokenizer().piece(id), tokenizer.piece(id)));
    }
  }
  return {};
}

}  // namespace

Result<OpenedModel> open_model(const EngineOptions& options) {
  QUERN_ASSIGN(const RunnerOptions runner, runner_options(options));
  QUERN_ASSIGN(auto source, open_model_source(options.model_path));
  QUERN_ASSIGN(auto text, TextModel::create(*source));
  EngineParts parts;
  QUERN_ASSIGN(parts.runner, Runner::create(std::move(source), runner));
  parts.tokenizer = std::shared_ptr<const Tokenizer>(text, &text->tokenizer());
  parts.eos_ids = parts.runner->config().eos_ids;
  const std::vector<int32_t> more = text->tokenizer().eos_ids();
  parts.eos_ids.insert(parts.eos_ids.end(), more.begin(), more.end());
  if (!options.speculative_model.empty()) {
    QUERN_ASSIGN(auto draft_source, open_model_source(options.speculative_model));
    QUERN_TRY(check_same_words(*draft_source, text->tokenizer()));
    QUERN_ASSIGN(parts.draft, Runner::create(std::move(draft_source), runner));
  }
  QUERN_ASSIGN(auto engine, create_engine(std::move(parts), options));
  return OpenedModel{.text = std::move(text), .engine = std::move(engine)};
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  QUERN_ASSIGN(OpenedModel model, open_model(options));
  return std::move(model.engine);
}

}  // namespace quern
