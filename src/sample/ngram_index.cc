#include "sample/ngram_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quern {

namespace {

constexpr int kPlacesMax = 24;  // looked at per search: older ones say little

uint64_t pair_key(int32_t first, int32_t second) {
  return static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32 | static_cast<uint32_t>(second);
}

}  // namespace

void NgramIndex::append(int32_t token) {
  const auto at = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  previous_.push_back(-1);
  if (at == 0) return;
  const auto [place, is_new] = last_.try_emplace(pair_key(tokens_[static_cast<size_t>(at) - 1], token), at);
  if (!is_new) previous_.back() = std::exchange(place->second, at);
}

void NgramIndex::clear() {
  tokens_.clear();
  previous_.clear();
  last_.clear();
}

NgramIndex::Match NgramIndex::find(std::span<const int32_t> context, int32_t length_max) const {
  Match best;
  if (context.size() < 2) return best;
  const auto found = last_.find(pair_key(context[context.size() - 2], context.back()));
  if (found == last_.end()) return best;
  const auto longest = static_cast<int32_t>(std::min(context.size(), static_cast<size_t>(length_max)));
  int places = 0;
  for (int32_t end = found->second; end >= 0 && places < kPlacesMax; end = previous_[static_cast<size_t>(end)]) {
    if (static_cast<size_t>(end) + 1 == tokens_.size()) continue;  // nothing follows
    ++places;
    int32_t length = 2;
    while (length < longest && length <= end &&
           tokens_[static_cast<size_t>(end - length)] == context[context.size() - 1 - static_cast<size_t>(length)]) {
      ++length;
    }
    if (length > best.length) best = {.length = length, .next = end + 1};
    if (length == longest) break;
  }
  return best;
}

void NgramIndex::copy(const Match& match, int32_t count, std::vector<int32_t>& out) const {
  QUERN_CHECK(match.length > 0 && static_cast<size_t>(match.next) < tokens_.size());
  out.clear();
  for (int32_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(match.next + i);
    out.push_back(at < tokens_.size() ? tokens_[at] : out[at - tokens_.size()]);
  }
}

}  // namespace quern
