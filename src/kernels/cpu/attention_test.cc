// Attention of the CPU device against the reference, and bit for bit against itself however the work is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/cpu/isa.h"
#include "kernels/testing/matrix.h"

namespace quern {
namespace {

using testing_util::cpu_device;
using testing_util::expect_close;
using testing_util::expect_same_bits;
using testing_util::kEps;
using testing_util::Matrix;

constexpr KvDType kAllDtypes[] = {KvDType::kF32,  KvDType::kF16,  KvDType::kBF16,
                                  KvDType::kQ8_0, KvDType::kQ4_0, KvDType::kI16};

struct Shape {
  int32_t heads = 4, kv_heads = 2, key_dim = 32, value_dim = 32;
  KvDType key_dtype = KvDType::kF32, value_dtype = KvDType::kF32;
  bool value_in_key = false;
  int32_t window = 0;
  float softcap = 0;
  bool sinks = false;
  bool alibi = false;

  KvLayerSpec layer() const { return {kv_heads, key_dim, value_dim, value_in_key, key_dtype, value_dtype}; }
  float scale() const { return 2.0f / std::sqrt(static_cast<float>(key_dim)); }
};

// A context of `length` positions with random queries, keys and values; its blocks lie scattered in the storage.
struct Context {
  Context(const Shape& shape, int32_t length, uint32_t seed, std::vector<int32_t> block_table)
      : length(length),
        query(Matrix::random(length, int64_t{shape.heads} * shape.key_dim, seed)),
        key(Matrix::random(length, int64_t{shape.kv_heads} * shape.key_dim, seed + 1)),
        value(Matrix::random(length, shape.value_in_key ? 0 : int64_t{shape.kv_heads} * shape.value_dim, seed + 2)),
        blocks(std::move(block_table)) {}

  void write(Device& device, KvStorage& storage, int32_t begin, int32_t count) {
    std::vector<int32_t> slots;
    for (int32_t p = begin; p < begin + count; ++p) {
      slots.push_back(blocks[static_cast<size_t>(p / kKvBlockSize)] * kKvBlockSize + p % kKvBlockSize);
    }
    device.write_kv(key.mat().slice_rows(begin, count), value.mat().slice_rows(begin, count), slots, storage, 0);
  }

  int32_t length;
  Matrix query, key, value;
  std::vector<int32_t> blocks;
};

std::vector<int32_t> shuffled_blocks(int32_t count, uint32_t seed) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::ranges::shuffle(blocks, std::mt19937(seed));
  return blocks;
}

class AttentionTest : public testing::TestWithParam<std::string> {
 protected:
  AttentionSpec spec(const Shape& shape) {
    AttentionSpec spec;
    spec.num_heads = shape.heads;
    spec.scale = shape.scale();
    spec.softcap = shape.softcap;
    spec.window = shape.window;
    spec.sinks = shape.sinks ? sinks_ : nullptr;
    spec.alibi = shape.alibi ? slopes_ : nullptr;
    return spec;
  }

  // Runs the whole context through `device` in steps of the given sizes (the last repeats).
  Matrix run(Device& device, const Shape& shape, Context& context, const std::vector<int32_t>& steps) {
    const KvLayerSpec layer = shape.layer();
    auto storage = device.allocate_kv({&layer, 1}, static_cast<int32_t>(context.blocks.size())).value();
    Matrix out(context.length, int64_t{shape.heads} * shape.value_dim);
    size_t step = 0;
    for (int32_t begin = 0; begin < context.length;) {
      const int32_t count = std::min(steps[std::min(step++, steps.size() - 1)], context.length - begin);
      context.write(device, *storage, begin, count);
      SequenceSpan span;
      span.query_count = count;
      span.context_begin = begin;
      span.blocks = context.blocks;
      device.attention(context.query.mat().slice_rows(begin, count), *storage, 0, {&span, 1}, spec(shape),
                       out.mat().slice_rows(begin, count));
      begin += count;
    }
    return out;
  }

  // A score is a sum of key_dim products, in error by about sqrt(key_dim) roundings of |q| |k|; the weights, whose sum
  // is one, are off by that much relatively, and so is the mean of values below 1. Weights and values add sqrt(n)
  // roundings.
  static double tolerance(const Shape& shape, double positions) {
    const double norms = shape.key_dim / 3.0;  // E |x|^2 of uniform [-1, 1] is 1/3 per element
    // Integers: a query's elements are off by up to half a code, which is 1 / code_max; so is a chunk's largest weight.
    // Four times the root mean square of their sums.
    double codes = 0;
    if (shape.key_dtype == KvDType::kI16) {
      codes += 4 * shape.scale() * std::sqrt(norms / 12) / kv_code_max(shape.key_dim);
    }
    if (shape.value_dtype == KvDType::kI16) {
      codes += 4 * std::sqrt(kKvValueTerms / 3.0 / 12) / kv_code_max(kKvValueTerms);
    }
    return codes + kEps * (4 * std::sqrt(shape.key_dim) * shape.scale() * norms / std::sqrt(shape.key_dim) +
                           2 * std::sqrt(positions) + 16);
  }

  void check(const Shape& shape, int32_t length, const std::string& what) {
    Context context(shape, length, 100, shuffled_blocks((length + 15) / 16 + 2, 5));
    Matrix expected = run(*reference_, shape, context, {length});
    Matrix whole = run(*one_, shape, context, {length});
    expect_close(whole, expected, [&](int64_t, int64_t) { return tolerance(shape, length); }, what);
    Matrix threads = run(*two_, shape, context, {length});
    expect_same_bits(whole, threads, what + ": one and two threads");
    Matrix singly = run(*two_, shape, context, {1});
    expect_same_bits(whole, singly, what + ": at once and one by one");
    Matrix chunked = run(*one_, shape, context, {7, 1, 40, 3, 65});
    expect_same_bits(whole, chunked, what + ": at once and in chunks");
  }

  void check_alone_and_in_a_batch(KvDType dtype) {
    Shape shape;
    shape.key_dtype = shape.value_dtype = dtype;
    const std::vector<int32_t> lengths = {1, 16, 300, 47, 0, 600, 5};
    const std::vector<int32_t> queries = {1, 16, 20, 1, 0, 1, 2};
    const std::vector<int32_t> all_blocks = shuffled_blocks(80, 2);
    const KvLayerSpec layer = shape.layer();
    auto storage = two_->allocate_kv({&layer, 1}, 80).value();
    std::vector<Context> contexts;
    size_t used = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const size_t count = static_cast<size_t>((lengths[i] + 15) / 16);
      contexts.emplace_back(shape, lengths[i], static_cast<uint32_t>(10 * i),
                            std::vector<int32_t>(all_blocks.begin() + static_cast<std::ptrdiff_t>(used),
                                                 all_blocks.begin() + static_cast<std::ptrdiff_t>(used + count)));
      used += count;
      contexts.back().write(*two_, *storage, 0, lengths[i]);
    }
    const int32_t total = std::accumulate(queries.begin(), queries.end(), 0);
    Matrix query(total, 4 * 32), batch(total, 4 * 32);
    std::vector<SequenceSpan> spans;
    int32_t row = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      spans.push_back({row, queries[i], lengths[i] - queries[i], contexts[i].blocks});
      two_->copy(contexts[i].query.mat().slice_rows(lengths[i] - queries[i], queries[i]),
                 query.mat().slice_rows(row, queries[i]));
      row += queries[i];
    }
    two_->attention(query, *storage, 0, spans, spec(shape), batch);
    for (const SequenceSpan& span : spans) {
      Matrix alone(span.query_count, 4 * 32);
      SequenceSpan single = span;
      single.query_begin = 0;
      two_->attention(query.mat().slice_rows(span.query_begin, span.query_count), *storage, 0, {&single, 1},
                      spec(shape), alone);
      expect_same_bits(alone, batch.mat().slice_rows(span.query_begin, span.query_count), "alone and in a batch");
    }
  }

  const float slopes_[4] = {0.035400390625f, 0.0625f, 0.0f, 0.00390625f};
  const float sinks_[32] = {0.5f, -1.0f, 3.0f, 0.0f, 1.5f, -40.0f, 2.0f, 9.0f};
  std::unique_ptr<Device> reference_ = make_reference_device();
  std::unique_ptr<Device> one_ = cpu_device(GetParam(), 1);
  std::unique_ptr<Device> two_ = cpu_device(GetParam(), 2);
};

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(cpu::available_isas()),
                         [](const auto& isa) { return isa.param; });

TEST_P(AttentionTest, Lengths) {
  for (int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 130, 257, 300})
    check(Shape(), length, "length " + std::to_string(length));
}

TEST_P(AttentionTest, LongContextInSegments) {
  Shape shape;
  shape.heads = 3;
  shape.kv_heads = 1;
  shape.key_dim = shape.value_dim = 16;
  check(shape, 1100, "long");
}

TEST_P(AttentionTest, StorageTypes) {
  for (KvDType key : kAllDtypes) {
    for (KvDType value : kAllDtypes) {
      Shape shape;
      shape.key_dtype = key;
      shape.value_dtype = value;
      check(shape, 90,
            "types " + std::to_string(static_cast<int>(key)) + ", " + std::to_string(static_cast<int>(value)));
    }
  }
}

TEST_P(AttentionTest, HeadsAndDims) {
  struct Case {
    int32_t heads, kv_heads, key_dim, value_dim;
  };
  for (const Case& c : {Case{1, 1, 8, 8}, Case{1, 1, 1, 1}, Case{9, 3, 64, 64}, Case{8, 1, 40, 24}, Case{14, 2, 64, 64},
                        Case{5, 5, 72, 72}, Case{26, 2, 17, 33}, Case{4, 2, 128, 96}, Case{2, 1, 256, 256}}) {
    for (KvDType dtype : {KvDType::kF16, KvDType::kQ8_0, KvDType::kQ4_0, KvDType::kI16}) {
      Shape shape;
      shape.heads = c.heads;
      shape.kv_heads = c.kv_heads;
      shape.key_dim = c.key_dim;
      shape.value_dim = c.value_dim;
      shape.key_dtype = shape.value_dtype = dtype;
      check(
          shape, 70,
          "heads " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) + " dims " + std::to_string(c.key_dim));
    }
  }
}

TEST_P(AttentionTest, WindowSoftcapSinks) {
  for (int32_t window : {0, 1, 5, 16, 33, 100, 1000}) {
    for (float softcap : {0.0f, 1.5f}) {
      for (bool sinks : {false, true}) {
        Shape shape;
        shape.key_dtype = shape.value_dtype = KvDType::kF16;
        shape.window = window;
        shape.softcap = softcap;
        shape.sinks = sinks;
        check(shape, window == 33 ? 330 : 120, "window " + std::to_string(window));
      }
    }
  }
}

TEST_P(AttentionTest, Alibi) {
  for (int32_t window : {0, 33}) {
    Shape shape;
    shape.window = window;
    shape.alibi = true;
    check(shape, 700, "alibi, window " + std::to_string(window));
  }
}

TEST_P(AttentionTest, ValueInKey) {
  for (KvDType dtype : {KvDType::kF32, KvDType::kF16, KvDType::kBF16, KvDType::kQ8_0, KvDType::kQ4_0}) {
    Shape shape;
    shape.heads = 6;
    shape.kv_heads = 1;
    shape.key_dim = 44;
    shape.value_dim = 36;
    shape.value_in_key = true;
    shape.key_dtype = dtype;
    check(shape, 150, "value in key");
  }
}

TEST_P(AttentionTest, WindowedBlocksMayBeGone) {
  Shape shape;
  shape.window = 20;
  Context context(shape, 200, 3, shuffled_blocks(14, 1));
  const KvLayerSpec layer = shape.layer();
  auto storage = one_->allocate_kv({&layer, 1}, 14).value();
  context.write(*one_, *storage, 0, 200);
  SequenceSpan span;
  span.query_count = 3;
  span.context_begin = 197;
  span.blocks = context.blocks;
  Matrix with(3, 4 * 32), without(3, 4 * 32);
  one_->attention(context.query.mat().slice_rows(197, 3), *storage, 0, {&span, 1}, spec(shape), with);
  std::fill_n(context.blocks.begin(), 11, -1);
  one_->attention(context.query.mat().slice_rows(197, 3), *storage, 0, {&span, 1}, spec(shape), without);
  expect_same_bits(with, without, "blocks behind the window");
}

// What lies behind the last query in its block is another sequence's leftovers.
TEST_P(AttentionTest, LeftoversInABlockAreNotRead) {
  for (KvDType dtype : kAllDtypes) {
    Shape shape;
    shape.key_dtype = shape.value_dtype = dtype;
    Context context(shape, 70, 3, shuffled_blocks(5, 1));
    const KvLayerSpec layer = shape.layer();
    Matrix outs[2] = {Matrix(70, 4 * 32), Matrix(70, 4 * 32)};
    for (int pass = 0; pass < 2; ++pass) {
      auto storage = one_->allocate_kv({&layer, 1}, 5).value();
      if (pass == 1) {
        Context poison(shape, 80, 9, context.blocks);
        for (Matrix* m : {&poison.key, &poison.value}) {
          for (int64_t r = 0; r < 80; ++r)
            std::fill_n(m->mat().row(r), m->cols(), std::numeric_limits<float>::quiet_NaN());
        }
        poison.write(*one_, *storage, 0, 80);
      }
      context.write(*one_, *storage, 0, 70);
      SequenceSpan span;
      span.query_count = 70;
      span.blocks = context.blocks;
      one_->attention(context.query, *storage, 0, {&span, 1}, spec(shape), outs[pass]);
    }
    expect_same_bits(outs[0], outs[1], "clean and dirty storage");
  }
}

TEST_P(AttentionTest, LargeValuesSaturateInFloat16) {
  Shape shape;
  shape.key_dtype = shape.value_dtype = KvDType::kF16;
  Context context(shape, 20, 3, {1, 0});
  for (int64_t c = 0; c < context.value.cols(); ++c) context.value.at(19, c) = 1e6f;
  check(shape, 20, "before");
  Matrix expected = run(*reference_, shape, context, {20}), whole = run(*one_, shape, context, {20});
  for (int64_t r = 0; r < 20; ++r) {
    for (int64_t c = 0; c < whole.cols(); ++c) EXPECT_TRUE(std::isfinite(whole.at(r, c)));
  }
  expect_close(
      whole.mat().slice_rows(0, 19), expected.mat().slice_rows(0, 19),
      [&](int64_t, int64_t) { return tolerance(shape, 20); }, "rows before the large value");
}

// A batch of sequences of many lengths gives each the bits it has alone.
TEST_P(AttentionTest, AloneAndInABatch) {
  for (KvDType dtype : {KvDType::kF16, KvDType::kQ8_0, KvDType::kQ4_0, KvDType::kI16})
    check_alone_and_in_a_batch(dtype);
}

// How far fewer bits take the result from 16 bits, as root mean squares.
TEST_P(AttentionTest, FewBitsStayNearSixteen) {
  Shape shape;
  Context context(shape, 200, 17, shuffled_blocks(13, 2));
  const auto with = [&](KvDType key, KvDType value) {
    shape.key_dtype = key;
    shape.value_dtype = value;
    return run(*one_, shape, context, {200});
  };
  Matrix half = with(KvDType::kF16, KvDType::kF16);
  const auto error = [&](KvDType key, KvDType value) {
    Matrix other = with(key, value);
    double off = 0, all = 0;
    for (int64_t r = 0; r < half.rows(); ++r) {
      for (int64_t c = 0; c < half.cols(); ++c) {
        off += std::pow(double{other.at(r, c)} - half.at(r, c), 2);
        all += std::pow(half.at(r, c), 2);
      }
    }
    return std::sqrt(off / all);
  };
  // A step of d = max / 8 is off by d / sqrt(12), 6 % of a uniform element's root mean square; keys add their share.
  const double eight = error(KvDType::kQ8_0, KvDType::kQ8_0), four = error(KvDType::kQ4_0, KvDType::kQ4_0);
  EXPECT_LT(eight, 0.01);
  EXPECT_LT(four, 0.15);
  EXPECT_GT(four, 4 * eight) << "these are not four bits";
  EXPECT_LT(error(KvDType::kQ8_0, KvDType::kQ4_0), four);
  EXPECT_LT(error(KvDType::kQ4_0, KvDType::kQ8_0), four);
}

TEST_P(AttentionTest, CopiedBlockReadsTheSame) {
  for (KvDType dtype : {KvDType::kF16, KvDType::kQ8_0, KvDType::kQ4_0, KvDType::kI16}) {
    Shape shape;
    shape.key_dtype = shape.value_dtype = dtype;
    Context context(shape, 30, 1, {0, 1, 2});
    const KvLayerSpec layers[2] = {shape.layer(), shape.layer()};
    auto storage = one_->allocate_kv(layers, 3).value();
    context.write(*one_, *storage, 0, 30);
    Matrix before(1, 4 * 32), after(1, 4 * 32);
    SequenceSpan span{0, 1, 29, context.blocks};
    one_->attention(context.query.mat().slice_rows(29, 1), *storage, 0, {&span, 1}, spec(shape), before);
    one_->copy_kv_block(*storage, 1, 2);
    const std::vector<int32_t> copied = {0, 2};
    span.blocks = copied;
    one_->attention(context.query.mat().slice_rows(29, 1), *storage, 0, {&span, 1}, spec(shape), after);
    expect_same_bits(before, after, "original and copy");
  }
}

TEST_P(AttentionTest, Full) {
  struct Case {
    int32_t heads, kv_heads, key_dim, value_dim, window;
  };
  for (const Case& c : {Case{4, 4, 32, 32, 0}, Case{3, 3, 20, 20, 0}, Case{6, 2, 64, 48, 0}, Case{2, 2, 16, 16, 9},
                        Case{1, 1, 5, 3, 70}}) {
    Shape shape;
    shape.heads = c.heads;
    shape.kv_heads = c.kv_heads;
    shape.key_dim = c.key_dim;
    shape.value_dim = c.value_dim;
    shape.window = c.window;
    const std::vector<int32_t> lengths = {1, 64, 33, 0, 290, 15};
    const int32_t total = std::accumulate(lengths.begin(), lengths.end(), 0);
    Matrix query = Matrix::random(total, int64_t{c.heads} * c.key_dim, 1),
           key = Matrix::random(total, int64_t{c.kv_heads} * c.key_dim, 2);
    Matrix value = Matrix::random(total, int64_t{c.kv_heads} * c.value_dim, 3);
    std::vector<SequenceSpan> spans;
    int32_t row = 0;
    for (int32_t length : lengths) {
      spans.push_back({row, length, 0, {}});
      row += length;
    }
    Matrix expected(total, int64_t{c.heads} * c.value_dim), one = expected, two = expected, alone = expected;
    reference_->attention_full(query, key, value, c.kv_heads, spans, spec(shape), expected);
    one_->attention_full(query, key, value, c.kv_heads, spans, spec(shape), one);
    two_->attention_full(query, key, value, c.kv_heads, spans, spec(shape), two);
    for (const SequenceSpan& span : spans)
      two_->attention_full(query, key, value, c.kv_heads, {&span, 1}, spec(shape), alone);
    expect_close(one, expected, [&](int64_t, int64_t) { return tolerance(shape, 290); }, "full");
    expect_same_bits(one, two, "full, one and two threads");
    expect_same_bits(one, alone, "full, alone and in a batch");
  }
}

}  // namespace
}  // namespace quern
