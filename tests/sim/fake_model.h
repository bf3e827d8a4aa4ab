// A model in three lines: what it stores for a position mixes the token with everything it attends to, and the next
// token is a hash of what the last position sees. A wrong block, a stale copy or a wrong prefix hit changes the answer.
#pragma once

#include <cstdint>
#include <vector>

namespace quern::sim {

inline constexpr int32_t kVocabSize = 50;

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 29)) * 0x94d049bb133111eb;
  return x ^ (x >> 32);
}

struct FakeModel {
  int32_t window = 0;  // > 0: position p attends to (p - window, p]

  int32_t first_attended(int32_t position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }

  // `stored(q)` gives what was stored for position q.
  template <class Stored>
  uint64_t value(int32_t token, int32_t position, uint64_t salt, const Stored& stored) const {
    uint64_t state = mix(salt, static_cast<uint64_t>(token));
    for (int32_t q = first_attended(position); q < position; ++q) state = mix(state, stored(q));
    return state;
  }

  // The token at `position` + 1 of stream `stream` (what a seed is to a sampler).
  static int32_t next_token(uint64_t value, uint64_t stream) {
    return static_cast<int32_t>(mix(value, stream) % static_cast<uint64_t>(kVocabSize));
  }

  // Continues `tokens` to `length`, alone and without a cache.
  std::vector<int32_t> solo(std::vector<int32_t> tokens, size_t length, uint64_t salt, uint64_t stream) const {
    std::vector<uint64_t> values;
    while (true) {
      while (values.size() < tokens.size()) {
        const auto position = static_cast<int32_t>(values.size());
        values.push_back(
            value(tokens[values.size()], position, salt, [&](int32_t q) { return values[static_cast<size_t>(q)]; }));
      }
      if (tokens.size() >= length) return tokens;
      tokens.push_back(next_token(values.back(), stream));
    }
  }
};

}  // namespace quern::sim
