#include <algorithm>

#include "base/status.h"
#include "engine/engine_factory.h"

namespace quern {

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
  QUERN_ASSIGN(auto engine, create_engine(std::move(parts), options));
  return OpenedModel{.text = std::move(text), .engine = std::move(engine)};
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  QUERN_ASSIGN(OpenedModel model, open_model(options));
  return std::move(model.engine);
}

}  // namespace quern
