// Where a model's layers keep their keys and values. Layers that see the same stand together in groups of one size; a
// block of the storage holds 16 positions for the layers of one group, so that a group with a window can give back what
// lies behind it while another keeps everything.
//
//   layers of the model   0:window  1:window  2:full  3:window  4:window  5:full
//   groups                0: 2, 5     1: 0, 1     2: 3, 4        (the storage has two layers)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"

namespace quern {

struct KvPlace {
  int32_t group = 0;
  int32_t index = 0;  // layer of the storage
};

struct KvLayout {
  std::vector<KvLayerSpec> layers;  // of the storage: one group's
  std::vector<int32_t> windows;     // of each group; 0: its layers see everything
  std::vector<KvPlace> places;      // of each layer of the model

  int32_t num_groups() const { return static_cast<int32_t>(windows.size()); }
  int64_t block_bytes() const;
};

// `layers` and `windows` (empty: none) are of the model's layers.
// One group of all layers; it has a window where every layer has one, the widest.
KvLayout one_kv_group(std::span<const KvLayerSpec> layers, std::span<const int32_t> windows);
// Groups by window, full ones first, where layers differ in nothing else. The last group of a window may be padded:
// the size is the one with fewest groups that pads less than a tenth. One group where there is nothing to gain, or
// groups would be too many. A window of `context_length` or more is none.
KvLayout window_kv_groups(std::span<const KvLayerSpec> layers, std::span<const int32_t> windows,
                          int32_t context_length);

}  // namespace quern
