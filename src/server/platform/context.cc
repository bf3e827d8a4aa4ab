#include "server/platform/context.h"

#include "base/status.h"

namespace quern::platform {

ApiResult<Fleet*> Context::find_fleet() const {
  if (fleet != nullptr) return fleet;
  return std::unexpected(
      ApiError{.message = "this server manages no models: it was started without its fleet", .code = "no_fleet"});
}

ApiResult<void> Context::check_changes() const {
  if (changes_allowed) return {};
  return std::unexpected(ApiError{.status = 403,
                                  .message = "models may not be launched, stopped or registered here: that wants a "
                                             "server with API keys, or one that listens on this machine only",
                                  .type = "permission_error"});
}

ApiError platform_error(const Error& error) {
  ApiError result = to_api_error(error);
  if (error.code == ErrorCode::kResourceExhausted) {
    result.status = 400;
    result.type = "invalid_request_error";
    result.code = "insufficient_memory";
  }
  const size_t end = error.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (result.status == 400 && end != 0 && end != std::string::npos && error.message[end] == ':') {
    result.param = error.message.substr(0, end);
  }
  return result;
}

ApiError unknown_model(const std::string& uid) {
  return {.status = 404,
          .message = fmt::format("Model not found in the model list, uid: {}", uid),
          .param = "model",
          .code = "model_not_found"};
}

}  // namespace quern::platform
