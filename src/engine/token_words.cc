#include "engine/token_words.h"

#include <algorithm>

#include "base/status.h"

namespace quern {

namespace {

constexpr size_t kBreakerBytesMax = 40;  // as llama.cpp: of a string, what is beyond is left away
constexpr size_t kTailTokensMax = 20;
constexpr size_t kKnownMax = 16;

// The length of the beginning of `text` that `piece` has at `at` and to its end; 0: it differs before.
size_t overlap_at(std::string_view piece, size_t at, std::string_view text) {
  const size_t length = std::min(piece.size() - at, text.size());
  return piece.substr(at, length) == text.substr(0, length) ? length : 0;
}

}  // namespace

Result<std::vector<int32_t>> TokenWords::ids_of(const std::string& text) const {
  QUERN_ASSIGN(Encoding encoding, tokenizer_->encode(text, {.add_special = false}));
  return std::move(encoding.ids);
}

Result<std::vector<std::vector<int32_t>>> TokenWords::bad_word_ids(const std::vector<std::string>& words) const {
  std::vector<std::vector<int32_t>> result;
  for (const std::string& word : words) {
    const size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos) return invalid_argument("bad_words: an empty word is in every text");
    const std::string bare = word.substr(begin);
    QUERN_ASSIGN(auto plain, ids_of(bare));
    QUERN_ASSIGN(auto spaced, ids_of(" " + bare));
    if (plain.empty()) return invalid_argument(fmt::format("bad_words: '{}' is no text of this model", word));
    const bool other = spaced.size() == plain.size() && spaced.front() != plain.front();
    result.push_back(std::move(plain));
    if (other) result.push_back(std::move(spaced));
  }
  return result;
}

Result<DryBreakers> TokenWords::scan(const std::vector<std::string>& strings) const {
  DryBreakers result;
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string piece = tokenizer_->token_bytes(id);
    for (const std::string& whole : strings) {
      const std::string text = whole.substr(0, kBreakerBytesMax);
      if (piece.find(text) != std::string::npos) {
        result.breakers.push_back({.head = id, .tail = {}});
        continue;
      }
      for (size_t at = piece.find(text[0]); at != std::string::npos; at = piece.find(text[0], at + 1)) {
        const size_t length = overlap_at(piece, at, text);
        if (length == 0) continue;
        QUERN_ASSIGN(auto tail, ids_of(text.substr(length)));
        tail.resize(std::min(tail.size(), kTailTokensMax));
        result.breakers.push_back({.head = id, .tail = std::move(tail)});
      }
    }
  }
  std::ranges::sort(result.breakers);
  const auto repeated = std::ranges::unique(result.breakers);
  result.breakers.erase(repeated.begin(), repeated.end());
  return result;
}

Result<std::shared_ptr<const DryBreakers>> TokenWords::dry_breakers(const std::vector<std::string>& strings) const {
  for (const std::string& text : strings) {
    if (text.empty()) return invalid_argument("dry_sequence_breakers: an empty string is in every text");
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(strings); found != known_.end()) return found->second;
  }
  QUERN_ASSIGN(DryBreakers scanned, scan(strings));
  auto shared = std::make_shared<const DryBreakers>(std::move(scanned));
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kKnownMax) known_.clear();
  known_[strings] = shared;
  return shared;
}

}  // namespace quern
