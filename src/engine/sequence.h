// One answer on its way: what the step reads and changes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/answer_grammar.h"
#include "engine/answer_text.h"
#include "engine/draft_source.h"
#include "engine/request.h"
#include "engine/thinking_budget.h"
#include "kv/grouped_blocks.h"
#include "sample/sampler.h"

namespace quern {

//   tokens    [ prompt …                | output … ]
//   computed  ───────────────▶ (keys and values are in the blocks)      0 <= computed <= tokens.size()
// A step closes the gap; when it closes it wholly, the logits of the last token give the next one.
struct Sequence {
  int64_t id = 0;
  int64_t request_id = 0;
  int64_t arrival = 0;  // order of arrival; all answers of a request share it
  int32_t index = 0;    // which of n
  std::shared_ptr<const ValidRequest> valid;

  std::vector<int32_t> tokens;
  int32_t prompt_tokens = 0;
  int32_t computed = 0;
  int32_t forks_left = 0;     // answers that share this prompt and have not begun
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  GroupedBlocks blocks;
  std::unique_ptr<Sampler> sampler;
  AnswerText text;
  std::unique_ptr<AnswerGrammar> grammar;  // null: any text
  ThinkingBudget thinking{nullptr};
  std::unique_ptr<SequenceDraft> drafter;  // null: no speculation
  std::vector<int32_t> draft;              // guesses behind `tokens`, for the coming step only
  int32_t draft_row = 0;                   // the guess that the token drawn next is compared with
  int32_t draft_tokens = 0, accepted_draft_tokens = 0;

  int32_t prompt_scored = 0;  // positions whose PromptEvent is out, that of the token behind them
  bool disk_checked = false;  // its prompt was looked for in the disk tier
  bool started = false;       // was admitted at least once
  bool ended = false;         // its FinishEvent is out; removed at the end of the step
  EngineClock::time_point first_scheduled, first_token;

  std::span<const int32_t> prompt() const { return std::span(tokens).first(prompt_tokens); }
  std::span<const int32_t> output() const { return std::span(tokens).subspan(prompt_tokens); }
  int32_t target() const { return static_cast<int32_t>(tokens.size()); }
  // Wants logits of the prompt itself, which a prefix hit would not compute.
  bool scores_prompt() const {
    return valid->request.prompt_logprobs && index == 0 && prompt_scored + 1 < prompt_tokens;
  }
  int32_t priority() const { return valid->request.priority; }
};

}  // namespace quern
