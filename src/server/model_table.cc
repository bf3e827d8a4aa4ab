#include "server/model_table.h"

#include "base/status.h"

namespace quern {

ApiResult<const ServedModel*> ModelTable::find(const std::string& name) const {
  if (name.empty() && models_.size() == 1) return &models_.front();
  if (name.empty()) return bad_field("model", "model: is missing");
  for (const ServedModel& model : models_) {
    if (model.id == name) return &model;
  }
  return std::unexpected(ApiError{.status = 404,
                                  .message = fmt::format("The model `{}` does not exist", name),
                                  .type = "invalid_request_error",
                                  .param = "model",
                                  .code = "model_not_found"});
}

}  // namespace quern
