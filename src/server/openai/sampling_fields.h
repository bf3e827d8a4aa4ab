// The fields of a request that say how tokens are drawn and what is told about them, under the names of OpenAI, vLLM
// and llama.cpp.
#pragma once

#include <cstdint>
#include <limits>

#include "server/fields.h"
#include "server/openai/request.h"

namespace quern::openai {

inline constexpr int64_t kLogprobsMax = 128;
inline constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();

void read_sampling(Fields& fields, SamplingOptions& sampling);
void read_stop(Fields& fields, Request& request);
void read_best_of(Fields& fields, GenerationFields& generation);      // after n and stream
void read_beam_search(Fields& fields, GenerationFields& generation);  // the same
void read_adapter(Fields& fields, Request& request);
void read_speculation(Fields& fields, GenerationFields& generation);
void read_chat_logprobs(Fields& fields, GenerationFields& generation);
void read_completion_logprobs(Fields& fields, CompletionRequest& completion);  // after echo and prompt_logprobs

}  // namespace quern::openai
