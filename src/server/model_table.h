// The models this process serves. Filled before the server starts, read-only afterwards: any thread may look.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/text_model.h"
#include "quern/engine.h"
#include "server/api_error.h"

namespace quern {

struct ServedModel {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::shared_ptr<const TextModel> text;
  std::unique_ptr<Engine> engine;
};

class ModelTable {
 public:
  void add(ServedModel model) { models_.push_back(std::move(model)); }
  const std::vector<ServedModel>& models() const { return models_; }

  // An unknown name never means another model: 404, code model_not_found. An empty name means the only model there is.
  ApiResult<const ServedModel*> find(const std::string& name) const;

 private:
  std::vector<ServedModel> models_;
};

}  // namespace quern
