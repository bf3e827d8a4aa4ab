#include "models/kv_layout.h"

#include <gtest/gtest.h>

#include <set>

namespace quern {
namespace {

constexpr int32_t kContext = 8192;

std::vector<KvLayerSpec> layers(size_t count) {
  return std::vector<KvLayerSpec>(count, {.num_kv_heads = 2, .key_dim = 8, .value_dim = 8});
}

// Every `period`-th layer sees everything, the others `window` positions.
std::vector<int32_t> every(int32_t count, int32_t period, int32_t window) {
  std::vector<int32_t> windows;
  for (int32_t i = 1; i <= count; ++i) windows.push_back(i % period == 0 ? 0 : window);
  return windows;
}

void check(const KvLayout& layout, std::span<const int32_t> windows) {
  ASSERT_EQ(layout.places.size(), windows.size());
  std::set<std::pair<int32_t, int32_t>> taken;
  for (size_t i = 0; i < windows.size(); ++i) {
    const KvPlace place = layout.places[i];
    ASSERT_LT(place.group, layout.num_groups());
    ASSERT_LT(place.index, std::ssize(layout.layers));
    EXPECT_EQ(layout.windows[static_cast<size_t>(place.group)], windows[i]);
    EXPECT_TRUE(taken.emplace(place.group, place.index).second) << "layer " << i << " shares its place";
  }
}

TEST(KvLayout, MixedModelsAreSplitByWindow) {
  struct Case {
    int32_t count, period;
    size_t size;
    int32_t groups;
  };
  for (const Case& c : {Case{26, 2, 13, 2}, Case{24, 2, 12, 2}, Case{32, 4, 8, 4}, Case{64, 4, 16, 4}, Case{6, 6, 1, 6},
                        Case{26, 6, 4, 7}, Case{62, 6, 13, 5}, Case{21, 2, 11, 2}}) {
    const auto windows = every(c.count, c.period, 512);
    const KvLayout layout = window_kv_groups(layers(windows.size()), windows, kContext);
    EXPECT_EQ(layout.layers.size(), c.size) << c.count << " layers, every " << c.period;
    EXPECT_EQ(layout.num_groups(), c.groups) << c.count << " layers, every " << c.period;
    EXPECT_EQ(layout.windows.front(), 0);
    const auto padding = std::ssize(layout.layers) * layout.num_groups() - c.count;
    EXPECT_LE(padding * 10, c.count);
    check(layout, windows);
    EXPECT_EQ(layout.block_bytes(), int64_t{16} * 2 * 2 * 8 * 2 * std::ssize(layout.layers));
  }
}

TEST(KvLayout, OneGroupWhereAllLayersSeeTheSame) {
  for (int32_t window : {0, 100}) {
    const std::vector<int32_t> windows(5, window);
    const KvLayout layout = window_kv_groups(layers(5), windows, kContext);
    EXPECT_EQ(layout.layers.size(), 5u);
    EXPECT_EQ(layout.windows, std::vector{window});
    check(layout, windows);
  }
  EXPECT_EQ(window_kv_groups(layers(3), {}, kContext).windows, std::vector{0});
  EXPECT_EQ(one_kv_group(layers(2), std::vector{30, 50}).windows, std::vector{50}) << "the widest";
  EXPECT_EQ(one_kv_group(layers(2), std::vector{30, 0}).windows, std::vector{0});
}

TEST(KvLayout, OneGroupWhereNothingIsGained) {
  const auto windows = every(8, 2, kContext);
  EXPECT_EQ(window_kv_groups(layers(8), windows, kContext).num_groups(), 1) << "the window holds every context";
  auto unlike = layers(8);
  unlike[3].key_dim = 16;
  EXPECT_EQ(window_kv_groups(unlike, every(8, 2, 64), kContext).num_groups(), 1);
  std::vector<int32_t> many;
  for (int32_t i = 0; i < 40; ++i) many.push_back(i);
  EXPECT_EQ(window_kv_groups(layers(40), many, kContext).num_groups(), 1) << "forty groups of one layer";
}

}  // namespace
}  // namespace quern
