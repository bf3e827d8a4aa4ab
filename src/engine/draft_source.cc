#include "engine/draft_source.h"

#include <algorithm>

#include "base/status.h"

namespace quern {

namespace {

constexpr int32_t kNgramMax = 4;           // tokens that kNgram compares
constexpr int32_t kSuffixMax = 64;         // tokens that kSuffix compares
constexpr size_t kCorpusMax = 1 << 19;     // tokens; then it starts anew
constexpr int32_t kGuessesPerMatched = 4;  // a short match is not trusted far

}  // namespace

Result<Speculation> parse_speculation(std::string_view field, std::string_view text) {
  if (text == "off") return Speculation::kOff;
  if (text == "ngram") return Speculation::kNgram;
  if (text == "suffix") return Speculation::kSuffix;
  if (text == "draft") return Speculation::kDraft;
  return invalid_argument(fmt::format("{}: '{}' is not one of off, ngram, suffix, draft", field, text));
}

void AnswerCorpus::add(std::span<const int32_t> tokens) {
  if (index_.size() + tokens.size() > kCorpusMax) index_.clear();
  for (int32_t token : tokens) index_.append(token);
}

SequenceDraft::SequenceDraft(Speculation method, int32_t length_max, std::span<const int32_t> prediction)
    : method_(method), policy_(length_max) {
  for (int32_t token : prediction) index_.append(token);
}

void SequenceDraft::propose(std::span<const int32_t> tokens, int32_t length_max, const AnswerCorpus& corpus,
                            std::vector<int32_t>& out) {
  out.clear();
  for (; indexed_ < tokens.size(); ++indexed_) index_.append(tokens[indexed_]);
  const NgramIndex* best = &index_;
  NgramIndex::Match match = index_.find(tokens, method_ == Speculation::kSuffix ? kSuffixMax : kNgramMax);
  if (method_ == Speculation::kSuffix) {
    const NgramIndex::Match elsewhere = corpus.index().find(tokens, kSuffixMax);
    if (elsewhere.length > match.length) match = elsewhere, best = &corpus.index();
  }
  if (match.length == 0) return;
  const int32_t count = std::min({policy_.next_length(), length_max, match.length * kGuessesPerMatched});
  if (count > 0) best->copy(match, count, out);
}

}  // namespace quern
