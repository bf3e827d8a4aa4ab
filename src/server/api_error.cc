#include "server/api_error.h"

#include "base/json.h"

namespace quern {

ApiError to_api_error(const Error& error) {
  ApiError result{.message = error.message};
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidFile:
    case ErrorCode::kUnsupported: return result;
    case ErrorCode::kNotFound: result.status = 404; return result;
    case ErrorCode::kResourceExhausted:
      result.status = 429;
      result.type = "rate_limit_error";
      return result;
    case ErrorCode::kPermissionDenied:
      result.status = 403;
      result.type = "permission_error";
      return result;
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      result.status = 503;
      result.type = "service_unavailable";
      return result;
    case ErrorCode::kDeadlineExceeded:
      result.status = 504;
      result.type = "timeout";
      return result;
    case ErrorCode::kIo:
    case ErrorCode::kInternal: break;
  }
  result.status = 500;
  result.type = "internal_error";
  return result;
}

ApiError request_error(const Error& error, std::string_view prompt_field) {
  ApiError result = to_api_error(error);
  if (result.status != 400) return result;
  const size_t end = error.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (end == 0 || end == std::string::npos || error.message[end] != ':') return result;
  const std::string_view field = std::string_view(error.message).substr(0, end);
  result.param = field == "prompt_ids" ? prompt_field : field == "adapter" || field == "adapter_scale" ? "lora" : field;
  result.message = result.param + error.message.substr(end);
  return result;
}

ApiError prompt_error(const Error& error, std::string_view prompt_field) {
  ApiError result = request_error(error, prompt_field);
  if (error.message.starts_with("prompt_ids: ")) result.code = "context_length_exceeded";
  return result;
}

std::string openai_error_body(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return dump_json({{"error",
                     {{"message", error.message},
                      {"type", error.type},
                      {"param", text_or_null(error.param)},
                      {"code", text_or_null(error.code)}}},
                    {"detail", error.message}});
}

std::string openai_error_event(const ApiError& error) {
  return "data: " + openai_error_body(error) + "\n\ndata: [DONE]\n\n";
}

}  // namespace quern
