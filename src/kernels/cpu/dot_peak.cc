#include "kernels/cpu/dot_peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/cpu/pack.h"
#include "kernels/cpu/tiles.h"

// clang-format off: the choice of targets comes first, then the loop over them
#include "kernels/cpu/dot_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dot_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/cpu/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quern {
namespace HWY_NAMESPACE {

// Ten independent chains hide the latency of every machine at hand and leave registers for the operands.
constexpr int kChains = 10;

// The compiler must neither drop a result nor know an operand.
#undef QUERN_OPAQUE
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
#define QUERN_OPAQUE(v) asm volatile("" : "+v"((v).raw))
#elif HWY_ARCH_ARM
#define QUERN_OPAQUE(v) asm volatile("" : "+w"((v).raw))
#else
#define QUERN_OPAQUE(v) asm volatile("" : "+m"((v).raw))
#endif

// The multiplying instruction alone; returns multiply-adds done.
HWY_NOINLINE int64_t integer_work(int64_t rounds) {
  alignas(64) uint8_t codes[64];
  alignas(64) int8_t acts[4] = {1, -2, 3, -4};
  std::memset(codes, 3, sizeof(codes));
  Codes w = load_codes(codes);
  const Acts a = broadcast_acts(acts);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int c = 0; c < kChains; ++c) {
#if HWY_TARGET != HWY_SCALAR
      QUERN_OPAQUE(w);
#endif
      auto product = multiply_only(w, a);
      QUERN_OPAQUE(product);
    }
  }
  return rounds * kChains * 4 * static_cast<int64_t>(HWY_LANES(float));
}

HWY_NOINLINE int64_t float_work(int64_t rounds) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V sums[kChains];
  for (V& sum : sums) sum = hn::Zero(d);
  V x = hn::Set(d, 0.5f);
  const V y = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
    QUERN_OPAQUE(x);
#pragma GCC unroll 10
    for (V& sum : sums) sum = hn::MulAdd(x, y, sum);
  }
  for (V& sum : sums) QUERN_OPAQUE(sum);
  return rounds * kChains * static_cast<int64_t>(HWY_LANES(float));
}

// 0 multiply-adds on targets without the instruction.
HWY_NOINLINE int64_t bf16_work(int64_t rounds) {
#if HWY_TARGET == HWY_AVX3_DL
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& sum : sums) sum = hn::Zero(d);
  const auto x = hn::Zero(d);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (auto& sum : sums) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sum.raw) : "v"(x.raw));
  }
  for (auto& sum : sums) QUERN_OPAQUE(sum);
  return rounds * kChains * 2 * static_cast<int64_t>(HWY_LANES(float));
#else
  return rounds * 0;
#endif
}

HWY_NOINLINE int64_t read_work(const std::byte* data, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kStep = HWY_LANES(uint8_t);
  const auto* p = reinterpret_cast<const uint8_t*>(data);
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  for (int64_t i = 0; i + 2 * kStep <= bytes; i += 2 * kStep) {
    a = hn::Xor(a, hn::LoadU(d, p + i));
    b = hn::Xor(b, hn::LoadU(d, p + i + kStep));
  }
  auto sum = hn::Xor(a, b);
  QUERN_OPAQUE(sum);
  return bytes;
}

}  // namespace HWY_NAMESPACE
}  // namespace quern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quern {
namespace {

HWY_EXPORT(integer_work);
HWY_EXPORT(float_work);
HWY_EXPORT(bf16_work);
HWY_EXPORT(read_work);

#if defined(__x86_64__)
constexpr int64_t kTileMacs = int64_t{16} * 16 * 4;  // per byte group of four k, times k / 4

int64_t int8_tile_work(int64_t rounds) {
  cpu::TileShapes shapes;
  shapes.set(16, 64);
  cpu::tile_zero<4>();
  cpu::tile_zero<6>();
  for (int64_t i = 0; i < rounds; ++i) {
    cpu::tile_dot<0, 4, 6>();
    cpu::tile_dot<1, 4, 6>();
    cpu::tile_dot<2, 4, 6>();
    cpu::tile_dot<3, 4, 6>();
  }
  return rounds * 4 * kTileMacs * 16;
}

int64_t bf16_tile_work(int64_t rounds) {
  cpu::TileShapes shapes;
  shapes.set(16, 64);
  cpu::tile_zero<4>();
  cpu::tile_zero<6>();
  for (int64_t i = 0; i < rounds; ++i) {
    cpu::tile_dot_bf16<0, 4, 6>();
    cpu::tile_dot_bf16<1, 4, 6>();
    cpu::tile_dot_bf16<2, 4, 6>();
    cpu::tile_dot_bf16<3, 4, 6>();
  }
  return rounds * 4 * kTileMacs * 8;
}
#endif

// Best rate of `samples` runs, in 10^9 units per second; work(thread) returns the units it did.
template <class Work>
double best_rate(ThreadPool& pool, int samples, const Work& work) {
  double best = 0;
  for (int i = 0; i < samples; ++i) {
    std::vector<int64_t> units(static_cast<size_t>(pool.num_threads()));
    const auto start = std::chrono::steady_clock::now();
    pool.run(pool.num_threads(), [&](int64_t task, int32_t) { units[static_cast<size_t>(task)] = work(task); });
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    int64_t total = 0;
    for (int64_t n : units) total += n;
    best = std::max(best, static_cast<double>(total) / elapsed.count());
  }
  return best;
}

}  // namespace

CpuPeaks measure_cpu_peaks(ThreadPool& pool) {
  CpuPeaks peaks;
  constexpr int64_t kRounds = 50'000;
  peaks.int8_gmacs = best_rate(pool, 300, [](int64_t) { return HWY_DYNAMIC_DISPATCH(integer_work)(kRounds); });
  peaks.f32_gmacs = best_rate(pool, 300, [](int64_t) { return HWY_DYNAMIC_DISPATCH(float_work)(kRounds); });
#if defined(__x86_64__)
  constexpr int64_t kTileRounds = 10'000;
  if (cpu::has_tiles())
    peaks.int8_tile_gmacs = best_rate(pool, 200, [](int64_t) { return int8_tile_work(kTileRounds); });
  if (cpu::has_bf16_tiles())
    peaks.bf16_gmacs = best_rate(pool, 200, [](int64_t) { return bf16_tile_work(kTileRounds); });
  if (cpu::has_bf16_vectors()) {
    const auto work = [](int64_t) { return HWY_DYNAMIC_DISPATCH(bf16_work)(kRounds); };
    peaks.bf16_gmacs = std::max(peaks.bf16_gmacs, best_rate(pool, 100, work));
  }
#endif
  constexpr int64_t kReadBytes = int64_t{256} << 20;
  PageMemory memory;
  if (memory.allocate(static_cast<size_t>(kReadBytes)).has_value()) {
    std::memset(memory.data(), 1, memory.size());  // pages that were never written are all the same page of zeros
    const int64_t part = kReadBytes / pool.num_threads() / 128 * 128;
    peaks.read_gbytes = best_rate(
        pool, 20, [&](int64_t task) { return HWY_DYNAMIC_DISPATCH(read_work)(memory.data() + task * part, part); });
  }
  return peaks;
}

}  // namespace quern
#endif
