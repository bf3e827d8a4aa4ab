#include "models/decode_cost.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

const Weight* add(DecoderWeights& weights, int64_t planes, int64_t rows, int64_t cols, DType dtype,
                  size_t device_bytes = 0) {
  auto weight = std::make_unique<Weight>();
  weight->planes = planes;
  weight->rows = rows;
  weight->cols = cols;
  weight->dtype = dtype;
  weight->device_bytes = device_bytes;
  weights.store.weights.push_back(std::move(weight));
  return weights.store.weights.back().get();
}

TEST(DecodeCost, TiedTableIsReadAsTheOutputProjection) {
  DecoderWeights weights;
  weights.embed = add(weights, 1, 100, 64, DType::kQ8_0);
  weights.output.weight = weights.embed;
  weights.layers.resize(1);
  weights.layers[0].query.weight = add(weights, 1, 64, 64, DType::kF16, /*device_bytes=*/5000);
  const DecodeCost cost = decode_cost(weights, {});
  EXPECT_EQ(cost.weight_bytes, 100 * 2 * 34 + 5000);
  EXPECT_EQ(cost.macs, 100 * 64 + 64 * 64);
  EXPECT_EQ(cost.logits_macs, 100 * 64);
}

TEST(DecodeCost, LookUpTablesAreFree) {
  DecoderWeights weights;
  weights.embed = add(weights, 1, 100, 64, DType::kF32);
  weights.positions = add(weights, 1, 32, 64, DType::kF32);
  weights.output.weight = add(weights, 1, 100, 64, DType::kF32);
  const DecodeCost cost = decode_cost(weights, {});
  EXPECT_EQ(cost.weight_bytes, 100 * 64 * 4);
  EXPECT_EQ(cost.macs, 100 * 64);
}

TEST(DecodeCost, ExpertsCountByTheirShare) {
  DecoderWeights weights;
  weights.layers.resize(1);
  MoeWeights& moe = weights.layers[0].moe;
  moe.router.weight = add(weights, 1, 8, 64, DType::kF32);
  moe.gate.weight = add(weights, 8, 32, 64, DType::kF32);
  moe.up.weight = add(weights, 8, 32, 64, DType::kF32);
  moe.down.weight = add(weights, 8, 64, 32, DType::kF32);
  ModelConfig config;
  config.moe.router.top_k = 2;
  const DecodeCost cost = decode_cost(weights, config);
  EXPECT_EQ(cost.macs, 8 * 64 + 3 * 2 * 32 * 64);
  EXPECT_EQ(cost.weight_bytes, 4 * cost.macs);
}

}  // namespace
}  // namespace quern
