// LoRA adapters (Hu et al. 2021, arXiv 2106.09685): y += scale * (x · Aᵀ) · Bᵀ beside a model's own projections, for
// some rows of a batch. Immutable once made; destroyed by any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "models/adapters/adapter_data.h"
#include "quern/status.h"

namespace quern {

class Adapter {
 public:
  // Packs for `device`, in float32 arithmetic. Called by the device's owner thread.
  static Result<std::shared_ptr<const Adapter>> create(AdapterData data, Device& device);

  int32_t rank_max() const { return rank_max_; }
  int64_t bytes() const { return bytes_; }
  uint64_t digest() const { return data_.digest; }  // of its file: the same weights, the same number

  // Its part of one projection: out [T, rows] += scale * (x [T, cols] · Aᵀ) · Bᵀ; nothing where it has none.
  // low [T, >= rank_max], delta [T, >= rows]: scratch.
  void add_to(Device& device, int32_t layer, AdapterSite site, Mat x, float scale, Mat low, Mat delta, Mat out) const;

 private:
  struct Pair {
    std::unique_ptr<Weight> down, up;  // A [rank, cols], B [rows, rank]
  };
  Adapter() = default;

  AdapterData data_;  // the weights are read in place
  std::vector<std::array<Pair, kAdapterSites>> layers_;
  int32_t rank_max_ = 0;
  int64_t bytes_ = 0;
};

// Rows [begin, begin + count) of a step that go through an adapter.
struct AdapterRows {
  const Adapter* adapter = nullptr;
  float scale = 1.0f;
  int32_t begin = 0;
  int32_t count = 0;
};

// A step's adapters at one layer, and their scratch.
struct AdapterStep {
  std::span<const AdapterRows> rows;
  Mat low;    // [T, rank of any adapter]
  Mat delta;  // [T, widest projection]
  int32_t layer = 0;

  void add(Device& device, AdapterSite site, Mat x, Mat out) const;
};

}  // namespace quern
