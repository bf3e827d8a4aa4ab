// Speed of matrix products: GMAC/s and GB/s of weights per type, shape, tokens and threads, beside the machine's peaks.
//
//   matmul_bench [--types Q4_0,Q4_1] [--shapes 2048x2048,576x1536] [--tokens 1,8,512] [--threads 1,2] [--ms 150]
//   [--clock wall|cpu] [--isa avx512]
//
// A shape is ROWSxCOLS of the weight. Few tokens walk through copies of the weight that no cache holds, as a model's
// layers are walked through. Each number is the best sample within --ms, so a neighbour's bursts do not count; on a
// machine that is busy all the time, --clock cpu counts the time that this process had a core, divided by the threads.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/dot_peak.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

struct Shape {
  int64_t rows;
  int64_t cols;
};

struct Options {
  std::vector<std::string> types = {"F32", "BF16", "F16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
  std::vector<Shape> shapes = {{576, 576},   {1536, 576},  {576, 1536},  {49152, 576},
                               {2048, 2048}, {5632, 2048}, {2048, 5632}, {32000, 2048}};
  std::vector<int64_t> tokens = {1, 4, 8, 32, 512};
  std::vector<int64_t> threads = {1, 2};
  double ms = 150;
  clockid_t clock = CLOCK_MONOTONIC;
  std::string isa;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::vector<std::string> values = split(argv[i + 1], ',');
    std::vector<int64_t> numbers;
    for (const std::string& value : values) numbers.push_back(std::atoll(value.c_str()));
    if (name == "--types") {
      options.types = values;
    } else if (name == "--tokens") {
      options.tokens = numbers;
    } else if (name == "--threads") {
      options.threads = numbers;
    } else if (name == "--ms") {
      options.ms = static_cast<double>(numbers[0]);
    } else if (name == "--clock" && (values[0] == "cpu" || values[0] == "wall")) {
      options.clock = values[0] == "cpu" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    } else if (name == "--isa") {
      options.isa = values[0];
    } else if (name == "--shapes") {
      options.shapes.clear();
      for (const std::string& value : values) {
        const std::vector<std::string> sides = split(value, 'x');
        if (sides.size() != 2) return std::nullopt;
        options.shapes.push_back({std::atoll(sides[0].c_str()), std::atoll(sides[1].c_str())});
      }
    } else {
      return std::nullopt;
    }
  }
  return options;
}

struct Subject {
  std::vector<std::byte> source;
  std::vector<std::unique_ptr<Weight>> copies;
};

// Rows are rotations of a few random ones: the quantisers are slower than what is measured.
std::vector<std::byte> random_rows(DType dtype, const Shape& shape) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 0.05f);
  constexpr int64_t kDistinct = 7;
  const size_t row_bytes = *dtype_bytes(dtype, static_cast<uint64_t>(shape.cols));
  std::vector<std::byte> distinct(row_bytes * kDistinct);
  std::vector<float> row(static_cast<size_t>(shape.cols));
  for (int64_t i = 0; i < kDistinct; ++i) {
    for (float& x : row) x = normal(rng);
    if (!quantize(dtype, row.data(), distinct.data() + static_cast<size_t>(i) * row_bytes, shape.cols)) std::exit(1);
  }
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(shape.rows));
  for (int64_t r = 0; r < shape.rows; ++r) {
    std::copy_n(distinct.data() + static_cast<size_t>(r % kDistinct) * row_bytes, row_bytes,
                bytes.data() + static_cast<size_t>(r) * row_bytes);
  }
  return bytes;
}

Subject make_subject(DType dtype, const Shape& shape, size_t bytes_wanted) {
  Subject subject{random_rows(dtype, shape), {}};
  CpuMatmul cpu(1);
  // Types that are read in place need copies of the source, laid one after the other.
  const size_t one = subject.source.size();
  const size_t count = std::max<size_t>(1, bytes_wanted / one);
  subject.source.resize(one * count);
  for (size_t i = 1; i < count; ++i) std::copy_n(subject.source.data(), one, subject.source.data() + i * one);
  for (size_t i = 0; i < count; ++i) {
    const WeightRows part{dtype, shape.rows, shape.cols, subject.source.data() + i * one};
    auto weight = cpu.pack_weight({&part, 1}, 1, Precision::kFast);
    if (!weight) std::exit(1);
    subject.copies.push_back(std::move(*weight));
  }
  return subject;
}

double now_seconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Seconds of the best pass over all copies, per copy.
double best_seconds(const Subject& subject, ThreadPool& pool, CpuMatmul& cpu, int64_t tokens, const Options& options) {
  const Weight& first = *subject.copies.front();
  std::vector<float> x(static_cast<size_t>(tokens * first.cols));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
  std::vector<float> out(static_cast<size_t>(tokens * first.rows));
  double best = 1e9;
  double spent = 0;
  for (int pass = 0; pass < 4 || spent < options.ms / 1000; ++pass) {
    const double start = now_seconds(options.clock);
    for (const auto& weight : subject.copies) {
      const Device::MatmulTarget target{weight.get(), nullptr, {out.data(), tokens, first.rows, first.rows}};
      cpu.matmul(pool, {x.data(), tokens, first.cols, first.cols}, {&target, 1});
    }
    double elapsed = now_seconds(options.clock) - start;
    if (options.clock == CLOCK_PROCESS_CPUTIME_ID) elapsed /= pool.num_threads();
    spent += elapsed;
    best = std::min(best, elapsed / static_cast<double>(subject.copies.size()));
  }
  return best;
}

int run(const Options& options) {
  if (!cpu::select_isa(options.isa)) return 2;
  for (int64_t threads : options.threads) {
    ThreadPool pool(static_cast<int32_t>(threads));
    const CpuPeaks peaks = measure_cpu_peaks(pool);
    fmt::print("peak, {} threads: read {:.1f} GB/s; GMAC/s: int8 {:.0f}, int8 tiles {:.0f}, bf16 {:.0f}, f32 {:.0f}\n",
               threads, peaks.read_gbytes, peaks.int8_gmacs, peaks.int8_tile_gmacs, peaks.bf16_gmacs, peaks.f32_gmacs);
  }
  fmt::print("{:8} {:>6} {:>6} {:>6} {:>7} {:>10} {:>8} {:>8}\n", "type", "rows", "cols", "tokens", "threads", "us",
             "GMAC/s", "GB/s");
  for (const std::string& type : options.types) {
    const std::optional<DType> dtype = dtype_from_name(type);
    if (!dtype) return 2;
    for (const Shape& shape : options.shapes) {
      if (shape.cols % dtype_info(*dtype).block_elements != 0) continue;
      for (bool few : {true, false}) {
        const Subject subject = make_subject(*dtype, shape, few ? size_t{80} << 20 : 0);
        for (int64_t tokens : options.tokens) {
          if ((tokens <= 8) != few) continue;
          for (int64_t threads : options.threads) {
            ThreadPool pool(static_cast<int32_t>(threads));
            CpuMatmul cpu(static_cast<int32_t>(threads));
            const double seconds = best_seconds(subject, pool, cpu, tokens, options);
            const double macs = static_cast<double>(shape.rows * shape.cols * tokens);
            const auto bytes =
                static_cast<double>(*dtype_bytes(*dtype, static_cast<uint64_t>(shape.rows * shape.cols)));
            fmt::print("{:8} {:>6} {:>6} {:>6} {:>7} {:>10.1f} {:>8.1f} {:>8.1f}\n", type, shape.rows, shape.cols,
                       tokens, threads, seconds * 1e6, macs / seconds / 1e9, bytes / seconds / 1e9);
            std::fflush(stdout);
          }
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  const std::optional<quern::Options> options = quern::parse(argc, argv);
  if (!options) {
    std::fputs("usage: see the head of matmul_bench.cc\n", stderr);
    return 2;
  }
  return quern::run(*options);
}
