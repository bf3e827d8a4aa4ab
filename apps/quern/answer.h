// Reads a stream to its end: the whole answer of `generate`, one entry per index.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern::cli {

struct Answer {
  std::vector<int32_t> ids;
  std::string text;
  std::vector<float> logprobs;
  std::vector<std::vector<std::pair<int32_t, float>>> top_logprobs;
  FinishEvent finish;
};

// `on_text` (may be null) sees each piece of text as it becomes final, with its index. An answer that ended with an
// error is that error.
Result<std::vector<Answer>> read_answers(EventStream& stream, int32_t n,
                                         const std::function<void(int32_t index, const std::string& text)>& on_text);

// {"prompt_ids","ids","text","finish_reason","seed","timings"}; of the first answer, and with n > 1 all of them in
// "choices".
Json answers_json(const std::vector<int32_t>& prompt_ids, const std::vector<Answer>& answers, bool with_logprobs);

// {"queue_seconds", "prefill_seconds", …, tokens and tokens per second}
Json timings_json(const FinishEvent& finish);

// Tokens per second while the first token is out: of the tokens after it. 0 when there is nothing to divide.
double decode_tokens_per_second(const FinishEvent& finish);
double prefill_tokens_per_second(const FinishEvent& finish);

}  // namespace quern::cli
