// Routes of Xinference's that no engine of this build can answer: they say so. A worker of another engine may: where
// the body, JSON or a form, names its model, it is asked.
#include "base/status.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using http::asio::awaitable;

ApiError absent_error(std::string_view what) {
  return {.message = fmt::format("{} is not supported: no engine of this build does it", what), .code = "unsupported"};
}

Route absent(const char* method, const char* path, const char* what) {
  const auto run = [what](const ModelTable&, const http::Request&, http::Reply& reply) -> awaitable<void> {
    const ApiError error = absent_error(what);
    co_await send_error(reply, error);
  };
  return carried({method, path, run});
}

}  // namespace

Routes absent_routes() {
  return {
      absent("POST", "/v1/images/generations", "image generation"),
      absent("POST", "/v1/images/variations", "image generation"),
      absent("POST", "/v1/images/edits", "image editing"),
      absent("POST", "/v1/images/inpainting", "image editing"),
      absent("POST", "/v1/images/ocr", "text recognition in images"),
      absent("POST", "/v1/audio/transcriptions", "speech recognition"),
      absent("POST", "/v1/audio/translations", "speech recognition"),
      absent("POST", "/v1/audio/speech", "speech synthesis"),
      absent("POST", "/v1/audio/embeddings", "embedding of audio"),
      absent("POST", "/v1/video/generations", "video generation"),
      absent("POST", "/v1/video/generations/image", "video generation"),
      absent("POST", "/v1/video/generations/flf", "video generation"),
      absent("POST", "/v1/flexible/infers", "running code of users as a model"),
      needs(people::Scope::kModelsRegister, absent("POST", "/v1/models/llm/auto-register",
                                                   "registration from a folder by HTTP (quern register does it)")),
      needs(people::Scope::kModelsRegister,
            absent("POST", "/v1/models/update_type", "updating the catalogue while it runs")),
  };
}

}  // namespace quern::xinference
