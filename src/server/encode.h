// Encoder work of a route: texts to encodings, to outputs, to scores of pairs. Waits without holding an I/O thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/http/message.h"
#include "server/model_table.h"

namespace quern {

inline constexpr size_t kEncoderInputsMax = 2048;  // of one request

// truncate_prompt_tokens: a length, or -1 for the model's own; absent: inputs that are too long are refused.
std::optional<int32_t> read_truncation(Fields& fields, int32_t tokens_max);

// A text with the special tokens the model wants.
ApiResult<Encoding> encode_text(const ServedModel& model, const std::string& text, bool add_special,
                                std::optional<int32_t> truncation);

// The first `dimensions` of a vector (0: all), at length 1 again when it was cut.
void shorten_embedding(std::vector<float>& vector, int32_t dimensions);

// An error with status 0: the client is gone, nothing is to be sent.
http::asio::awaitable<ApiResult<EncoderAnswer>> run_encoder(const ServedModel& model, std::vector<Encoding> inputs,
                                                            http::Reply& reply);

using TextPair = std::pair<std::string, std::string>;
struct PairScores {
  std::vector<float> scores;  // a probability, or the cosine of two embeddings
  int64_t prompt_tokens = 0;
};
// A classifier of one label: sigmoid of the pair's logit; an embedding model: cosine; a yes/no reranker: P(yes).
http::asio::awaitable<ApiResult<PairScores>> score_pairs(const ServedModel& model, std::vector<TextPair> pairs,
                                                         std::optional<int32_t> truncation, http::Reply& reply);

}  // namespace quern
