#include "server/encode.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/status.h"
#include "server/offload.h"
#include "server/tracing/request_span.h"
#include "text/text_length.h"

namespace quern {
namespace {

using http::asio::awaitable;

ApiError client_left() {
  return {.status = 0};
}

// "input 3: …" is the encoder's own way to name an input; clients know it as input[3].
ApiError encoder_error(const Error& error) {
  ApiError result = to_api_error(error);
  if (result.status == 400) {
    result.param = "input";
    if (error.message.find("model takes at most") != std::string::npos) result.code = "context_length_exceeded";
  }
  return result;
}

awaitable<ApiResult<EncoderAnswer>> wait_for(const ServedModel& model, std::unique_ptr<EncoderQueue::Ticket> ticket,
                                             http::Reply& reply) {
  const auto signal = reply.signal();
  for (;;) {
    if (auto answer = ticket->take()) {
      if (!*answer) co_return std::unexpected(encoder_error(answer->error()));
      if (auto* span = reply.span()) span->see_encoded(model.id, (*answer)->prompt_tokens);
      reply.count_tokens((*answer)->prompt_tokens);
      co_return std::move(**answer);
    }
    if (reply.client_gone()) co_return std::unexpected(client_left());
    if (reply.out_of_time()) {
      const Error error{ErrorCode::kUnavailable, "the server is shutting down"};
      co_return std::unexpected(to_api_error(error));
    }
    co_await signal->wait();
  }
}

awaitable<ApiResult<PairScores>> score_by_yes_no(const ServedModel& model, std::vector<TextPair> pairs,
                                                 http::Reply& reply) {
  // Runs of one query share their prompt's beginning.
  PairScores result;
  for (size_t begin = 0; begin < pairs.size();) {
    std::vector<std::string> documents;
    size_t end = begin;
    for (; end < pairs.size() && pairs[end].first == pairs[begin].first; ++end) {
      documents.push_back(pairs[end].second);
    }
    const auto signal = reply.signal();
    auto ticket =
        model.encoder->submit_rerank(pairs[begin].first, std::move(documents), [signal] { signal->notify(); });
    if (!ticket) co_return std::unexpected(encoder_error(ticket.error()));
    const auto answer = co_await wait_for(model, std::move(*ticket), reply);
    if (!answer) co_return std::unexpected(answer.error());
    result.prompt_tokens += answer->prompt_tokens;
    for (const EncoderModel::Output& output : answer->outputs) result.scores.push_back(output.scores.at(0));
    begin = end;
  }
  co_return result;
}

// As much of a text as is encoded: its beginning where it is truncated, all of it where it may fit.
ApiResult<std::string_view> looked_at(const ServedModel& model, std::string_view text,
                                      std::optional<int32_t> truncation) {
  if (truncation) return text_beginning(text, *truncation);
  const Status fits = check_text_length(model.text->tokenizer(), text, model.max_model_len(), "input");
  if (!fits) return std::unexpected(encoder_error(fits.error()));
  return text;
}

ApiResult<std::vector<Encoding>> encode_pairs(const ServedModel& model, const std::vector<TextPair>& pairs,
                                              std::optional<int32_t> truncation) {
  std::vector<Encoding> inputs;
  const EncodeOptions options{.add_special = true, .parse_special = false};
  for (const auto& [query, document] : pairs) {
    const auto first = looked_at(model, query, truncation), second = looked_at(model, document, truncation);
    if (!first) return std::unexpected(first.error());
    if (!second) return std::unexpected(second.error());
    auto encoding = model.text->tokenizer().encode_pair(*first, *second, options, truncation);
    if (!encoding) return std::unexpected(to_api_error(encoding.error()));
    inputs.push_back(std::move(*encoding));
  }
  return inputs;
}

// One encoding for each different text.
class TextIndex {
 public:
  size_t add(const std::string& text) {
    const auto [place, is_new] = places_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return place->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::string> texts_;
};

ApiResult<std::vector<Encoding>> encode_texts(const ServedModel& model, const std::vector<std::string>& texts,
                                              std::optional<int32_t> truncation) {
  std::vector<Encoding> inputs;
  for (const std::string& text : texts) {
    auto encoding = encode_text(model, text, true, truncation);
    if (!encoding) return std::unexpected(encoding.error());
    inputs.push_back(std::move(*encoding));
  }
  return inputs;
}

awaitable<ApiResult<PairScores>> score_by_cosine(const ServedModel& model, std::vector<TextPair> pairs,
                                                 std::optional<int32_t> truncation, http::Reply& reply) {
  TextIndex index;
  std::vector<std::pair<size_t, size_t>> places;
  for (const TextPair& pair : pairs) {
    const size_t first = index.add(pair.first);
    places.emplace_back(first, index.add(pair.second));
  }
  const std::function<ApiResult<std::vector<Encoding>>()> make_inputs = [&] {
    return encode_texts(model, index.texts(), truncation);
  };
  auto inputs = co_await offload(make_inputs);
  if (!inputs) co_return std::unexpected(inputs.error());
  PairScores result;
  const auto answer = co_await run_encoder(model, std::move(*inputs), reply);
  if (!answer) co_return std::unexpected(answer.error());
  result.prompt_tokens = answer->prompt_tokens;
  for (const auto& [first, second] : places) {
    const double cosine = cosine_similarity(answer->outputs[first].embedding, answer->outputs[second].embedding);
    result.scores.push_back(static_cast<float>(cosine));
  }
  co_return result;
}

}  // namespace

std::optional<int32_t> read_truncation(Fields& fields, int32_t tokens_max) {
  const auto length = fields.integer("truncate_prompt_tokens", -1, tokens_max);
  if (!length) return std::nullopt;
  if (*length == 0) {
    fields.fault("truncate_prompt_tokens", "truncate_prompt_tokens: must be -1 or at least 1");
    return std::nullopt;
  }
  return *length == -1 ? tokens_max : static_cast<int32_t>(*length);
}

ApiResult<Encoding> encode_text(const ServedModel& model, const std::string& text, bool add_special,
                                std::optional<int32_t> truncation) {
  const auto part = looked_at(model, text, truncation);
  if (!part) return std::unexpected(part.error());
  auto encoding = model.text->tokenizer().encode(
      *part, {.add_special = add_special, .parse_special = false, .max_length = truncation});
  if (!encoding) return std::unexpected(to_api_error(encoding.error()));
  std::ranges::fill(encoding->type_ids, 0);  // one text: no second segment
  return std::move(*encoding);
}

void shorten_embedding(std::vector<float>& vector, int32_t dimensions) {
  if (dimensions == 0 || vector.size() == static_cast<size_t>(dimensions)) return;
  vector.resize(static_cast<size_t>(dimensions));
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(squares));
}

awaitable<ApiResult<EncoderAnswer>> run_encoder(const ServedModel& model, std::vector<Encoding> inputs,
                                                http::Reply& reply) {
  const auto signal = reply.signal();
  auto ticket = model.encoder->submit(std::move(inputs), [signal] { signal->notify(); });
  if (!ticket) co_return std::unexpected(encoder_error(ticket.error()));
  co_return co_await wait_for(model, std::move(*ticket), reply);
}

awaitable<ApiResult<PairScores>> score_pairs(const ServedModel& model, std::vector<TextPair> pairs,
                                             std::optional<int32_t> truncation, http::Reply& reply) {
  if (model.task == ModelTask::kRerank) co_return co_await score_by_yes_no(model, std::move(pairs), reply);
  if (model.task == ModelTask::kEmbed) {
    co_return co_await score_by_cosine(model, std::move(pairs), truncation, reply);
  }
  const std::function<ApiResult<std::vector<Encoding>>()> make_inputs = [&] {
    return encode_pairs(model, pairs, truncation);
  };
  auto inputs = co_await offload(make_inputs);
  if (!inputs) co_return std::unexpected(inputs.error());
  PairScores result;
  const auto answer = co_await run_encoder(model, std::move(*inputs), reply);
  if (!answer) co_return std::unexpected(answer.error());
  result.prompt_tokens = answer->prompt_tokens;
  for (const EncoderModel::Output& output : answer->outputs) {
    if (output.scores.size() != 1) {
      co_return bad_field("model", fmt::format("model: `{}` is a classifier of {} labels, a relevance score needs one",
                                               model.id, output.scores.size()));
    }
    result.scores.push_back(sigmoid(output.scores[0]));
  }
  co_return result;
}

}  // namespace quern
