#include "server/generation.h"

#include <functional>

#include "base/status.h"
#include "server/keys.h"

namespace quern {

SamplingOptions default_sampling(const ServedModel& model) {
  SamplingOptions options;
  model.text->defaults().apply_to(options);
  return options;
}

ApiResult<std::vector<int32_t>> encode_messages(const ServedModel& model, TemplateInput input) {
  auto ids = model.text->encode_chat(std::move(input));
  if (!ids) return std::unexpected(to_api_error(ids.error()));
  return std::move(*ids);
}

ApiResult<EventStreams> submit(const Generation& generation) {
  auto stream = generation.model->engine->submit(generation.request);
  if (!stream) {
    ApiError error = to_api_error(stream.error());
    if (std::ssize(generation.request.prompt_ids) >= generation.model->engine->max_model_len()) {
      error.code = "context_length_exceeded";
    }
    return std::unexpected(std::move(error));
  }
  EventStreams streams;
  streams.push_back(std::move(*stream));
  return streams;
}

void set_origin(Request& request, const http::Request& from) {
  const auto key = key_of(from);
  request.tenant = key ? std::hash<std::string_view>{}(*key) : 0;
  request.background = from.background;
}

const std::string& shown_name(const Generation& generation) {
  const std::string& adapter = generation.request.adapter;
  return adapter.empty() ? generation.model->id : adapter;
}

ApiError finish_error(const FinishEvent& finish) {
  return to_api_error(finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"}));
}

}  // namespace quern
