#include "server/openai/beam_answer.h"

#include <algorithm>
#include <span>

#include "base/status.h"
#include "server/generation.h"
#include "server/openai/beam_search.h"
#include "server/pump.h"
#include "server/tracing/request_span.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

BeamSearch begin_beams(const Job& job, size_t prompt) {
  BeamOptions options{.width = job.fields.request.n, .length_penalty = job.fields.length_penalty};
  const auto& ids = job.prompts[prompt];
  const int32_t room = job.model->engine->max_model_len() - static_cast<int32_t>(ids.size());
  const int32_t wanted = job.fields.request.max_tokens;
  options.max_tokens = wanted == 0 ? room : std::min(wanted, room);
  const auto& stops = job.fields.request.stop_token_ids;
  options.end_ids.insert(stops.begin(), stops.end());
  if (!job.fields.request.ignore_eos) {
    for (int32_t id : job.model->text->tokenizer().eos_ids()) options.end_ids.insert(id);
  }
  return BeamSearch(ids, options);
}

ApiResult<EventStreams> submit_beams(const Job& job, const BeamSearch& beams) {
  EventStreams streams;
  for (Request& request : beams.requests(job.fields.request)) {
    auto stream = job.model->engine->submit(std::move(request));
    if (!stream) return std::unexpected(to_api_error(stream.error()));
    streams.push_back(std::move(*stream));
  }
  return streams;
}

// Answers of one prompt's best beams; false with `failure` or when the client is gone.
awaitable<bool> search_beams(const Job& job, BeamSearch& beams, http::Reply& reply, std::optional<ApiError>& failure) {
  while (!beams.done()) {
    auto streams = submit_beams(job, beams);
    if (!streams) {
      failure = streams.error();
      co_return false;
    }
    std::vector<std::vector<std::pair<int32_t, float>>> next(streams->size());
    const EventSink sink = [&](size_t beam, const Event& event) -> awaitable<bool> {
      if (event.token) next[beam] = event.token->top_logprobs;
      if (event.finish && event.finish->error) failure = to_api_error(*event.finish->error);
      co_return !failure;
    };
    if (!co_await pump(reply, *streams, Delivery::kWhole, sink)) co_return false;
    beams.take(next);
  }
  co_return true;
}

ApiResult<Json> beam_choices(const Job& job, size_t prompt, const BeamSearch& beams, int32_t first_index,
                             Usage& usage) {
  Json list = Json::array();
  const size_t begin = job.prompts[prompt].size();
  usage.prompt_tokens += static_cast<int64_t>(begin);
  for (const BeamSearch::Beam& beam : beams.best()) {
    usage.output_tokens += static_cast<int64_t>(beam.ids.size() - begin);
    const auto ids = std::span(beam.ids).subspan(begin, beam.ids.size() - begin - (beam.ended ? 1 : 0));
    auto text = job.model->text->tokenizer().decode(ids, job.fields.request.skip_special_tokens);
    if (!text) return std::unexpected(to_api_error(text.error()));
    const auto index = first_index + static_cast<int32_t>(list.size());
    const FinishReason reason = beam.ended ? FinishReason::kStop : FinishReason::kLength;
    list.push_back(choice_json(job, index, job.echoes[prompt] + *text, reason));
  }
  return list;
}

}  // namespace

awaitable<void> answer_beams(const AnswerHead& head, const Job& job, http::Reply& reply) {
  Json choices = Json::array();
  Usage usage;
  for (size_t prompt = 0; prompt < job.prompts.size(); ++prompt) {
    BeamSearch beams = begin_beams(job, prompt);
    if (auto* span = reply.span()) {
      Request request = job.fields.request;
      request.prompt_ids = job.prompts[prompt];
      span->see_request(shown_name(*job.model, request), request);
    }
    reply.count_tokens(std::ssize(job.prompts[prompt]));
    std::optional<ApiError> failure;
    const bool complete = co_await search_beams(job, beams, reply, failure);
    if (failure) co_return co_await send_error(reply, *failure);
    if (!complete) co_return;  // the client is gone
    auto list = beam_choices(job, prompt, beams, static_cast<int32_t>(choices.size()), usage);
    if (!list) co_return co_await send_error(reply, list.error());
    for (Json& choice : *list) choices.push_back(std::move(choice));
  }
  if (auto* span = reply.span()) span->set_completion_tokens(usage.output_tokens);
  co_await reply.send(200, "application/json", dump_json(answer_body(head, std::move(choices), usage)));
}

}  // namespace quern::openai
