// Codebooks of the IQ1, IQ2 and IQ3 element types: an index in a block stands for 4 or 8 components.
// Source: derived from golden blocks and their values (scripts/derive_codebooks.py); no two entries of a book are
// equal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quern {

template <size_t entries, size_t components>
using IqCodebook = std::array<std::array<int8_t, components>, entries>;

extern const IqCodebook<2048, 8> kIq1Book;    // IQ1_S and IQ1_M: -1, 0, 1
extern const IqCodebook<256, 8> kIq2XxsBook;  // magnitudes 8, 25, 43; signs stand in the block
extern const IqCodebook<512, 8> kIq2XsBook;
extern const IqCodebook<1024, 8> kIq2SBook;
extern const IqCodebook<256, 4> kIq3XxsBook;  // magnitudes 4, 12, 20, 28, 36, 44, 52, 62
extern const IqCodebook<512, 4> kIq3SBook;    // magnitudes 1, 3, 5, …, 15

// IQ4_NL and IQ4_XS: what the 16 codes of four bits stand for.
inline constexpr std::array<int8_t, 16> kIq4Levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace quern
