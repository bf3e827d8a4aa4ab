// The models this process serves. Filled before requests are let in, read-only afterwards: any thread may look.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/encoder_queue.h"
#include "engine/text_model.h"
#include "quern/engine.h"
#include "server/api_error.h"
#include "server/tools/format_choice.h"

namespace quern {

enum class ModelTask : uint8_t { kGenerate, kEmbed, kClassify, kRerank };
const char* model_task_name(ModelTask task);  // "generate", "embed", …

struct ServedModel {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  ModelTask task = ModelTask::kGenerate;
  std::shared_ptr<const TextModel> text;
  std::unique_ptr<Engine> engine;         // kGenerate
  std::unique_ptr<EncoderQueue> encoder;  // the others
  tools::OutputFormat output;             // kGenerate: how it writes tool calls and reasoning
  std::string source;                     // what the user called it by
  int64_t file_bytes = 0;
  std::string format;        // "gguf" or "safetensors"
  std::string family;        // "llama"
  std::string quantization;  // of a GGUF file, where its name says: "Q4_K_M"

  int32_t max_model_len() const { return engine ? engine->max_model_len() : encoder->tokens_max(); }
};

class ModelTable {
 public:
  void add(ServedModel model) { models_.push_back(std::move(model)); }
  const std::vector<ServedModel>& models() const { return models_; }

  // An unknown name never means another model: 404, code model_not_found. An empty name means the only model there is.
  ApiResult<const ServedModel*> find(const std::string& name) const;
  // Those that can do the task; a model that cannot is 400 and says so. An empty name means the only one that can.
  ApiResult<const ServedModel*> find_generator(const std::string& name) const;
  ApiResult<const ServedModel*> find_embedder(const std::string& name) const;
  ApiResult<const ServedModel*> find_classifier(const std::string& name) const;
  ApiResult<const ServedModel*> find_scorer(const std::string& name) const;  // pairs: any but a generator

  // A name may also be that of a LoRA adapter of one of the models.
  struct Choice {
    const ServedModel* model = nullptr;
    std::string adapter;  // or empty
  };
  ApiResult<Choice> choose(const std::string& name) const;      // a generator's
  ApiResult<Choice> choose_any(const std::string& name) const;  // any model's

 private:
  ApiResult<const ServedModel*> find_able(const std::string& name, bool (*able)(const ServedModel&),
                                          const char* ability) const;
  ApiResult<Choice> with_adapters(ApiResult<const ServedModel*> found, const std::string& name) const;

  std::vector<ServedModel> models_;
};

}  // namespace quern
