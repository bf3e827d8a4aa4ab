// Random damage to bytes, the same for the same seed on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace quern::fuzz {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // One to four changes: bits and bytes, numbers of 4 and 8 bytes replaced by ones that overflow, fields swapped, parts
  // cut, repeated or moved; in text also values replaced by ones of other kinds. Most fall where headers are.
  std::string mutate(std::string bytes);

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }  // bound > 0
  size_t position(const std::string& bytes, size_t size);       // of a part of `size` bytes
  void change(std::string& bytes);
  void change_number(std::string& bytes, size_t size);
  void change_value(std::string& text);

  std::mt19937_64 random_;
};

}  // namespace quern::fuzz
