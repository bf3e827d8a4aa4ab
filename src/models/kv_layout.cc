#include "models/kv_layout.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace quern {

namespace {

constexpr int64_t kGroupsMax = 32;                      // each is one more table per sequence
constexpr int64_t kPaddingShare = 10;                   // of the layers, one in so many may be padding
using Kinds = std::map<int32_t, std::vector<int32_t>>;  // layers of each window

bool same_shape(const KvLayerSpec& a, const KvLayerSpec& b) {
  const auto shape = [](const KvLayerSpec& s) {
    return std::tuple(s.num_kv_heads, s.key_dim, s.value_dim, s.value_in_key, s.key_dtype, s.value_dtype);
  };
  return shape(a) == shape(b);
}

// 0: no size will do.
int32_t group_size(const Kinds& kinds) {
  int64_t layers = 0, largest = 0;
  for (const auto& [window, members] : kinds) {
    layers += std::ssize(members);
    largest = std::max<int64_t>(largest, std::ssize(members));
  }
  std::pair<int64_t, int64_t> best{kGroupsMax + 1, 0};  // groups, padding
  int64_t best_size = 0;
  for (int64_t size = 1; size <= largest; ++size) {
    int64_t groups = 0;
    for (const auto& [window, members] : kinds) groups += (std::ssize(members) + size - 1) / size;
    const int64_t padding = groups * size - layers;
    if (padding * kPaddingShare > layers || std::pair(groups, padding) >= best) continue;
    best = {groups, padding};
    best_size = size;
  }
  return static_cast<int32_t>(best_size);
}

}  // namespace

int64_t KvLayout::block_bytes() const {
  int64_t bytes = 0;
  for (const KvLayerSpec& layer : layers) bytes += static_cast<int64_t>(kv_bytes_per_token(layer)) * kKvBlockSize;
  return bytes;
}

KvLayout one_kv_group(std::span<const KvLayerSpec> layers, std::span<const int32_t> windows) {
  QUERN_CHECK(windows.empty() || windows.size() == layers.size());
  const bool everywhere = !windows.empty() && std::ranges::all_of(windows, [](int32_t window) { return window > 0; });
  KvLayout layout;
  layout.layers.assign(layers.begin(), layers.end());
  layout.windows = {everywhere ? std::ranges::max(windows) : 0};
  for (int32_t i = 0; i < std::ssize(layers); ++i) layout.places.push_back({.group = 0, .index = i});
  return layout;
}

KvLayout window_kv_groups(std::span<const KvLayerSpec> layers, std::span<const int32_t> windows,
                          int32_t context_length) {
  QUERN_CHECK(windows.empty() || windows.size() == layers.size());
  Kinds kinds;
  for (size_t i = 0; i < windows.size(); ++i) {
    kinds[windows[i] < context_length ? windows[i] : 0].push_back(static_cast<int32_t>(i));
  }
  const bool alike = std::ranges::all_of(layers, [&](const KvLayerSpec& spec) { return same_shape(spec, layers[0]); });
  const int32_t size = kinds.size() > 1 && alike ? group_size(kinds) : 0;
  if (size == 0) return one_kv_group(layers, windows);
  KvLayout layout;
  layout.layers.assign(static_cast<size_t>(size), layers[0]);
  layout.places.resize(layers.size());
  for (const auto& [window, members] : kinds) {
    for (int32_t i = 0; i < std::ssize(members); ++i) {
      if (i % size == 0) layout.windows.push_back(window);
      layout.places[static_cast<size_t>(members[static_cast<size_t>(i)])] = {.group = layout.num_groups() - 1,
                                                                             .index = i % size};
    }
  }
  return layout;
}

}  // namespace quern
