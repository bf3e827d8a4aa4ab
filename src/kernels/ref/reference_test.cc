// The reference against values worked out by hand: what every other test rests on.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/testing/matrix.h"

namespace quern {
namespace {

using testing_util::Matrix;

std::unique_ptr<Device> device() {
  return make_reference_device();
}

Matrix row_of(const std::vector<float>& values) {
  Matrix m(1, static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), &m.at(0, 0));
  return m;
}

void expect_row(Mat actual, const std::vector<float>& expected, float tolerance = 1e-6f) {
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual.row(0)[i], expected[i], tolerance) << "element " << i;
}

TEST(Reference, Norms) {
  Matrix x = row_of({3, -4, 0, 0, 6, 8});
  const float weight[] = {1, 2, 1}, bias[] = {0, 0, 10};
  Device::NormSpec spec{.weight = weight, .epsilon = 0, .weight_offset = 1, .width = 3};
  Matrix out(1, 6);
  device()->rms_norm(x, spec, out);
  // Mean squares 25/3 and 100/3.
  const float a = std::sqrt(3.0f) / 5, b = std::sqrt(3.0f) / 10;
  expect_row(out, {3 * a * 2, -4 * a * 3, 0, 0, 6 * b * 3, 8 * b * 2});
  spec = {.weight = weight, .bias = bias, .epsilon = 2, .width = 3};
  Matrix y = row_of({1, 2, 3, 5, 5, 5});
  device()->layer_norm(y, spec, out);
  const float c = 1 / std::sqrt(2.0f / 3 + 2);
  expect_row(out, {-c, 0, c + 10, 0, 0, 10});
}

TEST(Reference, Rope) {
  // A quarter turn takes (a, b) to (-b, a).
  Matrix cosine = row_of({0, 1}), sine = row_of({1, 0});
  Matrix halves = row_of({9, 1, 2, 3, 4}), pairs = halves;
  device()->rope(halves, {.head_dim = 5, .offset = 1, .style = RopeStyle::kHalves}, cosine, sine);
  expect_row(halves, {9, -3, 2, 1, 4});
  device()->rope(pairs, {.head_dim = 5, .offset = 1, .style = RopeStyle::kPairs}, cosine, sine);
  expect_row(pairs, {9, -2, 1, 3, 4});
}

TEST(Reference, Activations) {
  Matrix x = row_of({1, -1, 0}), out(1, 3);
  device()->activate(x, Activation::kSilu, out);
  expect_row(out, {0.7310586f, -0.2689414f, 0});
  device()->activate(x, Activation::kGelu, out);
  expect_row(out, {0.8413447f, -0.1586553f, 0});
  device()->activate(x, Activation::kGeluTanh, out);
  expect_row(out, {0.8411920f, -0.1588080f, 0});
  device()->activate(x, Activation::kQuickGelu, out);
  expect_row(out, {0.8457958f, -0.1542042f, 0});
  device()->activate(x, Activation::kReluSquared, out);
  expect_row(out, {1, 0, 0});
  Matrix gate = row_of({10, 1, 1}), up = row_of({0, -9, 9});
  device()->swiglu_clamped(gate, up, 7, out);
  expect_row(out, {7 * 0.9999933f, -6 * 0.8457958f, 8 * 0.8457958f});
}

// Attention over one head of two elements; scores 0 and ln 3 weigh 1/4 and 3/4.
class ReferenceAttention : public testing::Test {
 protected:
  Matrix attend(KvLayerSpec layer, AttentionSpec spec, const std::vector<std::vector<float>>& keys,
                const std::vector<std::vector<float>>& values, const std::vector<float>& query, int32_t position) {
    const auto reference = device();
    auto storage = reference->allocate_kv({&layer, 1}, 2).value();
    const std::vector<int32_t> blocks = {1, 0};
    for (size_t p = 0; p < keys.size(); ++p) {
      const int32_t slot = blocks[p / 16] * 16 + static_cast<int32_t>(p % 16);
      Matrix key = row_of(keys[p]), value = values.empty() ? Matrix(1, 0) : row_of(values[p]);
      reference->write_kv(key, value, {&slot, 1}, *storage, 0);
    }
    Matrix q = row_of(query), out(1, spec.num_heads * layer.value_dim);
    const SequenceSpan span{0, 1, position, blocks};
    reference->attention(q, *storage, 0, {&span, 1}, spec, out);
    return out;
  }
  const float kLn3 = std::log(3.0f);
};

TEST_F(ReferenceAttention, WeighsValues) {
  const KvLayerSpec layer{1, 2, 1, false, KvDType::kF32, KvDType::kF32};
  const std::vector<std::vector<float>> keys = {{0, 5}, {kLn3, 5}, {99, 99}}, values = {{4}, {8}, {1e9f}};
  AttentionSpec spec{.num_heads = 2, .scale = 0.5f};
  // Two query heads share the kv head; the key behind the query is not seen.
  expect_row(attend(layer, spec, keys, values, {2, 0, 0, 1}, 1), {7, 6});
  spec.window = 1;
  expect_row(attend(layer, spec, keys, values, {2, 0, 0, 1}, 1), {8, 8});
  spec.window = 2;
  const float sinks[] = {std::log(4.0f), 0};
  spec.sinks = sinks;
  expect_row(attend(layer, spec, keys, values, {2, 0, 0, 0}, 1), {(4 + 24) / 8.0f, 4});
  const float slopes[] = {2 * kLn3, 0};  // position 1 gains ln 9 before the scale, about ln 3 in bfloat16 after it
  spec = {.num_heads = 2, .scale = 0.5f, .alibi = slopes};
  const float gain = std::exp(0.5f * 2.203125f);
  expect_row(attend(layer, spec, keys, values, {0, 0, 0, 0}, 1), {(4 + 8 * gain) / (1 + gain), 6});
  spec = {.num_heads = 1, .scale = 1, .softcap = 2};
  const float weight = std::exp(2 * std::tanh(kLn3 / 2));
  expect_row(attend(layer, spec, keys, values, {1, 0}, 1), {(4 + 8 * weight) / (1 + weight)});
}

TEST_F(ReferenceAttention, ValueInKeyAndBlocks) {
  KvLayerSpec layer{1, 2, 1, true, KvDType::kF32, KvDType::kF32};
  std::vector<std::vector<float>> keys(18, {0, -1000});
  keys[17] = {kLn3, 0};
  expect_row(attend(layer, {.num_heads = 1, .scale = 1}, keys, {}, {1, 1}, 17), {kLn3});
  keys[16] = {0, 0};
  expect_row(attend(layer, {.num_heads = 1, .scale = 1}, keys, {}, {1, 1}, 17), {kLn3 * 0.75f});
}

TEST_F(ReferenceAttention, StorageRounds) {
  const std::vector<std::vector<float>> keys = {{1, 1}}, values = {{1.0f + 1.0f / 4096, 100}};
  const auto stored = [&](KvDType dtype) {
    return attend({1, 2, 2, false, KvDType::kF32, dtype}, {.num_heads = 1, .scale = 1}, keys, values, {1, 1}, 0);
  };
  expect_row(stored(KvDType::kF32), {1.0f + 1.0f / 4096, 100}, 0);
  expect_row(stored(KvDType::kF16), {1, 100}, 0);
  expect_row(stored(KvDType::kBF16), {1, 100}, 0);
  // The scale 100 / 127 rounded to 11 bits is 1613 / 2048.
  expect_row(stored(KvDType::kQ8_0), {1613.0f / 2048, 127 * 1613.0f / 2048}, 0);
  // The scale -12.5 makes 100 exact; 1 is less than half a step.
  expect_row(stored(KvDType::kQ4_0), {0, 100}, 0);
}

TEST(Reference, FullAttentionSeesBothWaysInsideItsSpan) {
  Matrix query(3, 1), key(3, 1), value(3, 1), out(3, 1);
  for (int64_t i = 0; i < 3; ++i) value.at(i, 0) = static_cast<float>(1 << i);
  const SequenceSpan spans[] = {{0, 2, 0, {}}, {2, 1, 0, {}}};
  device()->attention_full(query, key, value, 1, spans, {.num_heads = 1}, out);
  EXPECT_NEAR(out.at(0, 0), 1.5f, 1e-6f);
  EXPECT_NEAR(out.at(1, 0), 1.5f, 1e-6f);
  EXPECT_EQ(out.at(2, 0), 4.0f);
  const SequenceSpan whole{0, 3, 0, {}};
  device()->attention_full(query, key, value, 1, {&whole, 1}, {.num_heads = 1, .window = 2}, out);
  EXPECT_NEAR(out.at(0, 0), 1.5f, 1e-6f);
  EXPECT_NEAR(out.at(1, 0), 7.0f / 3, 1e-6f);
  EXPECT_NEAR(out.at(2, 0), 3.0f, 1e-6f);
}

TEST(Reference, Route) {
  const float ln2 = std::log(2.0f);
  Matrix logits = row_of({0, ln2, ln2, 2 * ln2});  // softmax 1/9 2/9 2/9 4/9
  std::vector<int32_t> ids(2);
  std::vector<float> weights(2);
  device()->route(logits, {.top_k = 2}, ids, weights);
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 1}));
  EXPECT_NEAR(weights[0], 4.0f / 9, 1e-6f);
  EXPECT_NEAR(weights[1], 2.0f / 9, 1e-6f);
  device()->route(logits, {.top_k = 2, .normalize = true, .scale = 3}, ids, weights);
  EXPECT_NEAR(weights[0], 2, 1e-6f);
  device()->route(logits, {.top_k = 2, .softmax_after_top_k = true}, ids, weights);
  EXPECT_NEAR(weights[1], 1.0f / 3, 1e-6f);
  // Sigmoids 1/2 2/3 2/3 4/5. The bias chooses but does not weigh; the first group wins by its sum of two.
  const float bias[] = {1, 0, 0, 0.1f};
  const RouterSpec grouped{
      .top_k = 2, .sigmoid = true, .bias = bias, .num_groups = 2, .top_groups = 1, .group_score_top2 = true};
  device()->route(logits, grouped, ids, weights);
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1}));
  EXPECT_NEAR(weights[0], 0.5f, 1e-6f);
  EXPECT_NEAR(weights[1], 2.0f / 3, 1e-6f);
}

TEST(Reference, MatmulAndExperts) {
  const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const WeightRows rows[] = {{DType::kF32, 1, 2, reinterpret_cast<const std::byte*>(values)},
                             {DType::kF32, 3, 2, reinterpret_cast<const std::byte*>(values + 2)}};
  const auto reference = device();
  auto plain = reference->pack(rows, 1, Precision::kExact).value();
  EXPECT_EQ(plain->rows, 4);
  Matrix x = row_of({1, 10}), out(1, 4);
  const float bias[] = {0, 0, 0.5f, 0};
  const Device::MatmulTarget target{plain.get(), bias, out};
  reference->matmul(x, {&target, 1});
  expect_row(out, {21, 43, 65.5f, 87});
  Matrix embedded(2, 2);
  const int32_t ids[] = {3, 0};
  reference->embed(*plain, ids, embedded);
  EXPECT_EQ(embedded.at(0, 0), 7);
  EXPECT_EQ(embedded.at(1, 1), 2);

  auto experts = reference->pack(rows, 2, Precision::kFast).value();
  EXPECT_EQ(experts->rows, 2);
  Matrix inputs(2, 2), outputs(3, 2);
  inputs.at(0, 0) = 1;
  inputs.at(1, 1) = 1;
  const int32_t sources[] = {1, 0}, targets[] = {0, 2};
  const ExpertRows group{1, sources, targets};
  outputs.at(1, 0) = -1;
  reference->matmul_experts(inputs, *experts, bias, {&group, 1}, outputs);
  EXPECT_EQ(outputs.at(0, 0), 6.5f);
  EXPECT_EQ(outputs.at(0, 1), 8);
  EXPECT_EQ(outputs.at(1, 0), -1);
  EXPECT_EQ(outputs.at(2, 0), 5.5f);
  Matrix combined(1, 2), pair(2, 2);
  pair.at(0, 0) = 1;
  pair.at(1, 0) = 10;
  const float weights[] = {0.5f, 0.25f};
  reference->combine_experts(pair, weights, 2, combined);
  EXPECT_EQ(combined.at(0, 0), 3);
}

TEST(Device, MemoryThatCannotBe) {
  const auto reference = device();
  EXPECT_EQ(reference->allocate(int64_t{1} << 60).error().code, ErrorCode::kResourceExhausted);
  const KvLayerSpec layer{1024, 1024, 1024};
  EXPECT_EQ(reference->allocate_kv({&layer, 1}, 1 << 30).error().code, ErrorCode::kResourceExhausted);
  auto buffer = reference->allocate(700000).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
  EXPECT_EQ(buffer->data()[699999], 0.0f);
}

TEST(Device, KvBytesPerToken) {
  EXPECT_EQ(kv_bytes_per_token({2, 64, 32, false, KvDType::kF16, KvDType::kF32}), 2u * (128 + 128));
  EXPECT_EQ(kv_bytes_per_token({1, 40, 33, false, KvDType::kQ8_0, KvDType::kBF16}), 68u + 66);
  EXPECT_EQ(kv_bytes_per_token({1, 576, 512, true, KvDType::kF16, KvDType::kF16}), 1152u);
}

}  // namespace
}  // namespace quern
