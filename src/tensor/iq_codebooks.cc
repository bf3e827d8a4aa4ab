#include "tensor/iq_codebooks.h"

namespace quern {
namespace {

#include "tensor/iq_codebooks.inc"

// A code's digits in base `levels.size()`, least significant first, pick the levels of the components.
template <size_t components, size_t entries, size_t num_levels>
constexpr IqCodebook<entries, components> expand(const std::array<uint16_t, entries>& codes,
                                                 const std::array<int8_t, num_levels>& levels) {
  IqCodebook<entries, components> book = {};
  for (size_t i = 0; i < entries; ++i) {
    unsigned code = codes[i];
    for (size_t j = 0; j < components; ++j, code /= num_levels) book[i][j] = levels[code % num_levels];
  }
  return book;
}

constexpr std::array<int8_t, 3> kTernary = {-1, 0, 1};
constexpr std::array<int8_t, 3> kIq2Levels = {8, 25, 43};
constexpr std::array<int8_t, 8> kIq3XxsLevels = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<int8_t, 8> kIq3SLevels = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

constinit const IqCodebook<2048, 8> kIq1Book = expand<8>(kIq1Codes, kTernary);
constinit const IqCodebook<256, 8> kIq2XxsBook = expand<8>(kIq2XxsCodes, kIq2Levels);
constinit const IqCodebook<512, 8> kIq2XsBook = expand<8>(kIq2XsCodes, kIq2Levels);
constinit const IqCodebook<1024, 8> kIq2SBook = expand<8>(kIq2SCodes, kIq2Levels);
constinit const IqCodebook<256, 4> kIq3XxsBook = expand<4>(kIq3XxsCodes, kIq3XxsLevels);
constinit const IqCodebook<512, 4> kIq3SBook = expand<4>(kIq3SCodes, kIq3SLevels);

}  // namespace quern
