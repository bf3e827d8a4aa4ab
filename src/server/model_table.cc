#include "server/model_table.h"

#include "base/status.h"

namespace quern {

const char* model_task_name(ModelTask task) {
  switch (task) {
    case ModelTask::kGenerate: return "generate";
    case ModelTask::kEmbed: return "embed";
    case ModelTask::kClassify: return "classify";
    case ModelTask::kRerank: return "rerank";
  }
  return "unknown";
}

ApiResult<const ServedModel*> ModelTable::find(const std::string& name) const {
  if (name.empty() && models_.size() == 1) return &models_.front();
  if (name.empty()) return bad_field("model", "model: is missing");
  for (const ServedModel& model : models_) {
    if (model.id == name) return &model;
  }
  std::string served;
  for (const ServedModel& model : models_) served += (served.empty() ? "" : ", ") + model.id;
  return std::unexpected(ApiError{.status = 404,
                                  .message = fmt::format("The model `{}` does not exist{}{}", name,
                                                         served.empty() ? "" : "; served here: ", served),
                                  .type = "invalid_request_error",
                                  .param = "model",
                                  .code = "model_not_found"});
}

ApiResult<const ServedModel*> ModelTable::find_able(const std::string& name, bool (*able)(const ServedModel&),
                                                    const char* ability) const {
  if (name.empty() && models_.size() > 1) {
    const ServedModel* only = nullptr;
    for (const ServedModel& model : models_) {
      if (!able(model)) continue;
      if (only != nullptr) return bad_field("model", "model: is missing");
      only = &model;
    }
    if (only != nullptr) return only;
  }
  auto model = find(name);
  if (model && !able(**model)) {
    return bad_field("model",
                     fmt::format("model: `{}` ({}) {}", (*model)->id, model_task_name((*model)->task), ability));
  }
  return model;
}

ApiResult<const ServedModel*> ModelTable::find_generator(const std::string& name) const {
  return find_able(name, [](const ServedModel& model) { return model.engine != nullptr; }, "generates no text");
}

ApiResult<const ServedModel*> ModelTable::find_embedder(const std::string& name) const {
  return find_able(
      name, [](const ServedModel& model) { return model.task == ModelTask::kEmbed; },
      "has no embeddings; a causal language model embeds when it is served with --task embed");
}

ApiResult<const ServedModel*> ModelTable::find_classifier(const std::string& name) const {
  return find_able(
      name, [](const ServedModel& model) { return model.task == ModelTask::kClassify; }, "is no classifier");
}

ApiResult<const ServedModel*> ModelTable::find_scorer(const std::string& name) const {
  return find_able(
      name, [](const ServedModel& model) { return model.encoder != nullptr; },
      "scores no pairs; a reranker or an embedding model does");
}

ApiResult<ModelTable::Choice> ModelTable::choose(const std::string& name) const {
  return with_adapters(find_generator(name), name);
}

ApiResult<ModelTable::Choice> ModelTable::choose_any(const std::string& name) const {
  return with_adapters(find(name), name);
}

// What was found by that name among the models, else among the adapters.
ApiResult<ModelTable::Choice> ModelTable::with_adapters(ApiResult<const ServedModel*> found,
                                                        const std::string& name) const {
  if (found) return Choice{*found, ""};
  for (const ServedModel& model : models_) {
    if (model.engine == nullptr) continue;
    for (const AdapterInfo& adapter : model.engine->adapters().list()) {
      if (adapter.name == name) return Choice{&model, name};
    }
  }
  return std::unexpected(found.error());
}

}  // namespace quern
