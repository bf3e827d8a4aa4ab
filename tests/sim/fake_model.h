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
  std::vector<int32_t> windows = {0};  // of each layer; > 0: position p attends to (p - window, p]

  int32_t num_layers() const { return static_cast<int32_t>(windows.size()); }
  static int32_t first_attended(int32_t window, int32_t position) {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }

  // What `layer` stores for a position, from what the layer below stores for it. `stored(q)` gives what this layer
  // stored for position q.
  template <class Stored>
  uint64_t value(int32_t layer, uint64_t below, int32_t position, const Stored& stored) const {
    uint64_t state = mix(below, static_cast<uint64_t>(layer));
    const int32_t window = windows[static_cast<size_t>(layer)];
    for (int32_t q = first_attended(window, position); q < position; ++q) state = mix(state, stored(q));
    return state;
  }
  static uint64_t embed(int32_t token, uint64_t salt) { return mix(salt, static_cast<uint64_t>(token)); }

  // The token at `position` + 1 of stream `stream` (what a seed is to a sampler).
  static int32_t next_token(uint64_t value, uint64_t stream) {
    return static_cast<int32_t>(mix(value, stream) % static_cast<uint64_t>(kVocabSize));
  }

  // Continues `tokens` to `length`, alone and without a cache.
  std::vector<int32_t> solo(std::vector<int32_t> tokens, size_t length, uint64_t salt, uint64_t stream) const {
    std::vector<std::vector<uint64_t>> values(windows.size());
    while (true) {
      uint64_t last = 0;
      while (values[0].size() < tokens.size()) {
        const size_t position = values[0].size();
        last = embed(tokens[position], salt);
        for (int32_t layer = 0; layer < num_layers(); ++layer) {
          std::vector<uint64_t>& own = values[static_cast<size_t>(layer)];
          last = value(layer, last, static_cast<int32_t>(position),
                       [&](int32_t q) { return own[static_cast<size_t>(q)]; });
          own.push_back(last);
        }
      }
      if (tokens.size() >= length) return tokens;
      tokens.push_back(next_token(last, stream));
    }
  }
};

}  // namespace quern::sim
