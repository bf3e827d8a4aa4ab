// Text that came before, searched for where it went on the last time: drafts for speculative decoding without a model
// (prompt lookup; suffix decoding: Oliaro et al. 2024). Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace quern {

class NgramIndex {
 public:
  void append(int32_t token);
  size_t size() const { return tokens_.size(); }
  void clear();

  struct Match {
    int32_t length = 0;  // tokens that agree, counted from the end of `context` backwards; 0: none
    int32_t next = 0;    // index of the token that followed
  };
  // The longest earlier place (of equal ones the latest) where the last tokens of `context` stand and something
  // follows; at least two tokens agree, at most `length_max` are compared.
  Match find(std::span<const int32_t> context, int32_t length_max) const;
  // `count` tokens from `match` on; past the end it goes on with what it has copied, as a repetition would.
  void copy(const Match& match, int32_t count, std::vector<int32_t>& out) const;

 private:
  std::vector<int32_t> tokens_;
  std::vector<int32_t> previous_;               // [i]: where the pair that ends at i ended before; -1: nowhere
  std::unordered_map<uint64_t, int32_t> last_;  // pair of tokens → where it ended last
};

}  // namespace quern
