#include "server/generation.h"

#include "base/status.h"

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

ApiError finish_error(const FinishEvent& finish) {
  return to_api_error(finish.error.value_or(Error{ErrorCode::kInternal, "generation failed"}));
}

}  // namespace quern
