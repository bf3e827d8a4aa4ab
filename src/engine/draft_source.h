// Where the guesses of speculative decoding come from. A guess is only ever compared with what the sampler draws from
// the model's own logits at that place: answers are the same with any source, or none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quern/status.h"
#include "sample/draft_policy.h"
#include "sample/ngram_index.h"

namespace quern {

enum class Speculation : uint8_t {
  kOff,
  kNgram,   // where the last few tokens stood before in this sequence (or in the request's prediction)
  kSuffix,  // the longest match, in answers of other requests too
  kDraft,   // a smaller model
};
// "off" | "ngram" | "suffix" | "draft". kInvalidArgument names the field.
Result<Speculation> parse_speculation(std::string_view field, std::string_view text);

// Answers of finished requests, for all sequences of kSuffix. Bounded.
class AnswerCorpus {
 public:
  void add(std::span<const int32_t> tokens);
  const NgramIndex& index() const { return index_; }

 private:
  NgramIndex index_;
};

// What one sequence knows about its own guesses.
class SequenceDraft {
 public:
  SequenceDraft(Speculation method, int32_t length_max, std::span<const int32_t> prediction);

  Speculation method() const { return method_; }
  // Guesses what follows `tokens`, at most `length_max` of them. Empty: no idea, or not worth it now.
  void propose(std::span<const int32_t> tokens, int32_t length_max, const AnswerCorpus& corpus,
               std::vector<int32_t>& out);
  // How many tokens a model should guess now; 0: none.
  int32_t next_length() { return policy_.next_length(); }
  void record(int32_t drafted, int32_t accepted, double token_cost) { policy_.record(drafted, accepted, token_cost); }

 private:
  Speculation method_;
  DraftPolicy policy_;
  NgramIndex index_;
  size_t indexed_ = 0;  // tokens of the sequence that are in index_
};

}  // namespace quern
