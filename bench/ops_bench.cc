// Speed of single operations of the CPU device. Counters: GMAC/s of attention counts visible query-key pairs only,
// twice the head dimension each; GB/s counts what must be read.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/device.h"

namespace quern {
namespace {

std::unique_ptr<Device> make_device(int32_t num_threads) {
  CpuDeviceOptions options;
  options.num_threads = num_threads;
  if (const char* isa = std::getenv("QUERN_BENCH_ISA")) options.isa = isa;
  return make_cpu_device(options).value();
}

struct Values {
  Values(int64_t rows, int64_t cols) : values(static_cast<size_t>(rows * cols)), mat{values.data(), rows, cols, cols} {
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> distribution(-1, 1);
    for (float& v : values) v = distribution(generator);
  }
  std::vector<float> values;
  Mat mat;
};

struct HeadShape {
  int32_t heads, kv_heads, dim;
};
constexpr HeadShape kShapes[] = {{9, 3, 64}, {14, 2, 64}, {32, 8, 128}, {16, 16, 64}, {4, 1, 256}};

// `queries` new tokens at the end of a context of `context` positions, for each of `sequences`.
void attention(benchmark::State& state) {
  const HeadShape shape = kShapes[state.range(0)];
  const auto queries = static_cast<int32_t>(state.range(1)), context = static_cast<int32_t>(state.range(2));
  const auto sequences = static_cast<int32_t>(state.range(3));
  auto device = make_device(static_cast<int32_t>(state.range(4)));
  KvLayerSpec layer{shape.kv_heads, shape.dim, shape.dim};
  layer.key_dtype = layer.value_dtype = static_cast<KvDType>(state.range(5));
  const int32_t blocks = (context + kKvBlockSize - 1) / kKvBlockSize;
  auto storage = device->allocate_kv({&layer, 1}, blocks * sequences).value();
  Values key(context, shape.kv_heads * shape.dim), value(context, shape.kv_heads * shape.dim);
  Values query(queries * sequences, shape.heads * shape.dim), out(queries * sequences, shape.heads * shape.dim);
  std::vector<std::vector<int32_t>> tables;
  std::vector<SequenceSpan> spans;
  for (int32_t s = 0; s < sequences; ++s) {
    std::vector<int32_t> table(static_cast<size_t>(blocks)), slots(static_cast<size_t>(context));
    std::iota(table.begin(), table.end(), s * blocks);
    std::iota(slots.begin(), slots.end(), s * blocks * kKvBlockSize);
    device->write_kv(key.mat, value.mat, slots, *storage, 0);
    tables.push_back(std::move(table));
  }
  for (int32_t s = 0; s < sequences; ++s) {
    spans.push_back({s * queries, queries, context - queries, tables[static_cast<size_t>(s)]});
  }
  AttentionSpec spec;
  spec.num_heads = shape.heads;
  spec.scale = 0.125f;
  for (auto _ : state) device->attention(query.mat, *storage, 0, spans, spec, out.mat);
  double pairs = 0;
  for (int32_t q = 0; q < queries; ++q) pairs += context - queries + q + 1;
  const double macs = pairs * shape.heads * shape.dim * 2 * sequences;
  state.counters["GMAC/s"] = benchmark::Counter(macs * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  const double bytes = static_cast<double>(kv_bytes_per_token(layer)) * context * sequences;
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
// shape, queries, context, sequences, threads, KvDType
BENCHMARK(attention)

    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"shape", "queries", "context", "sequences", "threads", "kv"})
    ->Args({0, 512, 512, 1, 1, 1})
    ->Args({0, 512, 512, 1, 2, 1})
    ->Args({0, 512, 512, 1, 1, 3})
    ->Args({0, 512, 512, 1, 1, 0})
    ->Args({1, 512, 512, 1, 1, 1})
    ->Args({2, 512, 512, 1, 1, 1})
    ->Args({3, 512, 512, 1, 1, 1})
    ->Args({4, 512, 512, 1, 1, 1})
    ->Args({0, 512, 4096, 1, 1, 1})
    ->Args({0, 1, 2048, 1, 1, 1})
    ->Args({0, 1, 2048, 1, 2, 1})
    ->Args({0, 1, 2048, 1, 1, 0})
    ->Args({0, 1, 2048, 1, 1, 2})
    ->Args({0, 1, 2048, 1, 1, 3})
    ->Args({1, 1, 2048, 1, 1, 1})
    ->Args({2, 1, 2048, 1, 1, 1})
    ->Args({3, 1, 2048, 1, 1, 1})
    ->Args({3, 1, 2048, 1, 1, 3})
    ->Args({0, 1, 128, 1, 1, 1})
    ->Args({0, 1, 256, 32, 2, 1})
    ->Args({0, 1, 16384, 1, 1, 1});

void attention_full(benchmark::State& state) {
  const HeadShape shape = kShapes[state.range(0)];
  const auto tokens = static_cast<int32_t>(state.range(1));
  auto device = make_device(1);
  Values query(tokens, shape.heads * shape.dim), out = query, key(tokens, shape.kv_heads * shape.dim), value = key;
  out.mat.data = out.values.data();
  value.mat.data = value.values.data();
  AttentionSpec spec;
  spec.num_heads = shape.heads;
  spec.scale = 0.125f;
  const SequenceSpan span{0, tokens, 0, {}};
  for (auto _ : state) device->attention_full(query.mat, key.mat, value.mat, shape.kv_heads, {&span, 1}, spec, out.mat);
  state.counters["GMAC/s"] = benchmark::Counter(2e-9 * tokens * tokens * shape.heads * shape.dim,
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_full)

    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"shape", "tokens"})
    ->Args({3, 128})
    ->Args({3, 512});

void write_kv(benchmark::State& state) {
  auto device = make_device(1);
  KvLayerSpec layer{3, 64, 64};
  layer.key_dtype = layer.value_dtype = static_cast<KvDType>(state.range(1));
  auto storage = device->allocate_kv({&layer, 1}, 40).value();
  const int64_t tokens = state.range(0);
  Values key(tokens, 192), value(tokens, 192);
  std::vector<int32_t> slots(static_cast<size_t>(tokens));
  std::iota(slots.begin(), slots.end(), 0);
  for (auto _ : state) device->write_kv(key.mat, value.mat, slots, *storage, 0);
}
BENCHMARK(write_kv)
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"tokens", "kv"})
    ->Args({512, 1})
    ->Args({512, 0})
    ->Args({512, 2})
    ->Args({512, 3})
    ->Args({1, 1});

void rows(benchmark::State& state, int64_t tokens, int64_t cols, void (*op)(Device&, Mat, Mat, Mat)) {
  auto device = make_device(1);
  Values x(tokens, cols), y(tokens, cols), out(tokens, cols);
  for (auto _ : state) op(*device, x.mat, y.mat, out.mat);
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(tokens * cols) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
void register_rows() {
  using Op = void (*)(Device&, Mat, Mat, Mat);
  const std::pair<const char*, Op> ops[] = {
      {"rms_norm", [](Device& d, Mat x, Mat y, Mat out) { d.rms_norm(x, {.weight = y.data}, out); }},
      {"layer_norm",
       [](Device& d, Mat x, Mat y, Mat out) { d.layer_norm(x, {.weight = y.data, .bias = y.data}, out); }},
      {"add", [](Device& d, Mat x, Mat y, Mat out) { d.add(x, y, 1.0f, out); }},
      {"silu_multiply", [](Device& d, Mat x, Mat y, Mat out) { d.activate_multiply(x, y, Activation::kSilu, out); }},
      {"gelu", [](Device& d, Mat x, Mat, Mat out) { d.activate(x, Activation::kGelu, out); }},
      {"gelu_tanh", [](Device& d, Mat x, Mat, Mat out) { d.activate(x, Activation::kGeluTanh, out); }},
      {"softcap", [](Device& d, Mat x, Mat, Mat out) { d.softcap(x, 30.0f, out); }},
      {"rope",
       [](Device& d, Mat x, Mat y, Mat) {
         const Mat table = y.slice_cols(0, 32);
         d.rope(x, {.head_dim = 64}, table, table);
       }},
  };
  for (const auto& [name, op] : ops) {
    for (int64_t tokens : {1, 128}) {
      benchmark::RegisterBenchmark((std::string(name) + "/" + std::to_string(tokens)).c_str(),
                                   [tokens, op](benchmark::State& state) { rows(state, tokens, 1536, op); });
    }
  }
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  quern::register_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
