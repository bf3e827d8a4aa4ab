#include "sample/philox.h"

#include <gtest/gtest.h>

#include <set>

#include "sample/sampler.h"

namespace quern {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with the authors' Random123 library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformAt, DependsOnSeedPositionAndStream) {
  const double a = uniform_at(1, 2, 3);
  EXPECT_EQ(a, uniform_at(1, 2, 3));
  const std::set<double> values{a,
                                uniform_at(2, 2, 3),
                                uniform_at(1, 3, 3),
                                uniform_at(1, 2, 4),
                                uniform_at(1 | (1ull << 40), 2, 3),
                                uniform_at(1, 2 | (1ull << 40), 3)};
  EXPECT_EQ(values.size(), 6u);
}

TEST(UniformAt, IsUniformOverPositionsAndOverSeeds) {
  constexpr int kDraws = 100000;
  constexpr int kBins = 100;
  for (const bool over_seeds : {false, true}) {
    std::vector<int> bins(kBins);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const double u = over_seeds ? uniform_at(i, 5) : uniform_at(5, i);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++bins[static_cast<size_t>(u * kBins)];
    }
    double chi_square = 0;
    const double expected = kDraws / static_cast<double>(kBins);
    for (int count : bins) chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, 148.2) << "99 degrees of freedom, p = 0.001";
    EXPECT_GT(chi_square, 60.0) << "too even to be random";
  }
}

}  // namespace
}  // namespace quern
