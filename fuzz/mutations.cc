#include "mutations.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace quern::fuzz {
namespace {

constexpr size_t kHeaderBytes = 2048;

constexpr std::array<uint64_t, 16> kNumbers = {0,
                                               1,
                                               2,
                                               3,
                                               8,
                                               12,
                                               255,
                                               1 << 16,
                                               (uint64_t{1} << 31) - 1,
                                               uint64_t{1} << 31,
                                               (uint64_t{1} << 32) - 1,
                                               uint64_t{1} << 32,
                                               uint64_t{1} << 61,
                                               uint64_t{1} << 63,
                                               ~uint64_t{0} - 31,
                                               ~uint64_t{0}};

constexpr std::array<std::string_view, 22> kValues = {"0",
                                                      "-1",
                                                      "1",
                                                      "2",
                                                      "3",
                                                      "1e9",
                                                      "2147483648",
                                                      "4294967296",
                                                      "9223372036854775807",
                                                      "18446744073709551616",
                                                      "1e999",
                                                      "0.5",
                                                      "-0.0",
                                                      "1e-30",
                                                      "NaN",
                                                      "null",
                                                      "true",
                                                      "[]",
                                                      "{}",
                                                      "\"x\"",
                                                      "[[1]]",
                                                      "\"\\ud800\""};

}  // namespace

std::string Mutator::mutate(std::string bytes) {
  const uint64_t changes = 1 + below(4);
  for (uint64_t i = 0; i < changes; ++i) change(bytes);
  return bytes;
}

size_t Mutator::position(const std::string& bytes, size_t size) {
  const size_t places = bytes.size() - size + 1;
  return below(below(4) == 0 ? places : std::min(places, kHeaderBytes));
}

void Mutator::change(std::string& bytes) {
  if (bytes.size() < 16) {
    bytes.insert(below(bytes.size() + 1), 1, static_cast<char>(below(256)));
    return;
  }
  const size_t size = 1 + below(std::min<size_t>(bytes.size() / 2, 64));
  const size_t at = position(bytes, size);
  const auto target = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(12)) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8)); break;
    case 1: bytes[at] = static_cast<char>(below(256)); break;
    case 2: change_number(bytes, 4); break;
    case 3: change_number(bytes, 8); break;
    case 4: bytes.resize(position(bytes, 1)); break;
    case 5: bytes.resize(bytes.size() - size); break;
    case 6: bytes.erase(at, size); break;
    case 7: bytes.insert(position(bytes, 0), bytes.substr(at, size)); break;
    case 8: {  // two fields change places
      const size_t other = position(bytes, 8), one = position(bytes, 8);
      std::array<char, 8> held;
      std::memcpy(held.data(), &bytes[one], 8);
      std::memmove(&bytes[one], &bytes[other], 8);
      std::memcpy(&bytes[other], held.data(), 8);
      break;
    }
    case 9: std::fill(target, target + static_cast<std::ptrdiff_t>(size), static_cast<char>(below(3) * 127)); break;
    default: change_value(bytes); break;
  }
}

void Mutator::change_number(std::string& bytes, size_t size) {
  uint64_t number = kNumbers[below(kNumbers.size())];
  const size_t at = position(bytes, size);
  if (below(3) == 0) {  // a neighbour of what is there
    number = 0;
    std::memcpy(&number, &bytes[at], size);
    number += below(2) == 0 ? 1 : ~uint64_t{0};
  }
  std::memcpy(&bytes[at], &number, size);
}

// The number or word at a random place becomes another value.
void Mutator::change_value(std::string& text) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-'; };
  size_t begin = position(text, 1);
  while (begin < text.size() && std::isdigit(static_cast<unsigned char>(text[begin])) == 0) ++begin;
  if (begin == text.size()) begin = position(text, 1);
  size_t end = begin;
  while (end < text.size() && end - begin < 32 && is_part(text[end])) ++end;
  text.replace(begin, end - begin, kValues[below(kValues.size())]);
}

}  // namespace quern::fuzz
