// quern bench MODEL: tokens per second of prompts and of streams that decode side by side, with the bytes and
// multiply-adds behind them; with --roofline the machine's own peaks, with --profile where the time went.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "engine/throughput.h"
#include "hardware/cpu_topology.h"
#include "input.h"
#include "kernels/cpu/dot_peak.h"
#include "kernels/op_profile.h"
#include "measure_args.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct BenchArgs : MeasureArgs {
  std::string n_prompt = "512", n_gen = "128", batch = "1";  // comma-separated
  int32_t repetitions = 3;
  bool roofline = false;
  bool profile = false;
  std::string trace;  // file; empty: none
};

// About 170 MB of JSON.
constexpr size_t kTraceSpansMax = 2'000'000;

// A case with what its operations took, over all repetitions.
struct Measured {
  ThroughputResult result;
  double seconds = 0;
  std::vector<OpProfile::Sum> ops;  // empty without a profile
};

// Prompts run alone: a longer prompt or several at once fill the same step.
Result<std::vector<ThroughputCase>> cases_of(const BenchArgs& args) {
  QUERN_ASSIGN(const auto prompts, parse_numbers("--n-prompt", args.n_prompt));
  QUERN_ASSIGN(const auto gens, parse_numbers("--n-gen", args.n_gen));
  QUERN_ASSIGN(const auto batches, parse_numbers("--batch", args.batch));
  std::vector<ThroughputCase> cases;
  for (int32_t n_prompt : prompts) {
    if (n_prompt != 0) cases.push_back({.n_prompt = n_prompt});
  }
  for (int32_t n_gen : gens) {
    for (int32_t batch : batches) {
      if (n_gen != 0) cases.push_back({.n_gen = n_gen, .batch = batch});
    }
  }
  return cases;
}

// Both phases once, short, so that weights are in memory and scratch is allocated.
Status warm_up(ThroughputMeter& meter) {
  for (ThroughputCase of : meter.cases()) {
    of.n_prompt = std::min(of.n_prompt, 64);
    of.n_gen = std::min(of.n_gen, 4);
    QUERN_TRY(meter.run(of));
  }
  return {};
}

Result<std::vector<Measured>> measure(ThroughputMeter& meter, const DecodeCost& cost, int32_t repetitions,
                                      OpProfile* profile) {
  QUERN_TRY(warm_up(meter));
  if (profile != nullptr) profile->clear();
  std::vector<Measured> results;
  for (const ThroughputCase& of : meter.cases()) {
    std::vector<ThroughputSample> samples;
    if (profile != nullptr) profile->clear_sums();
    for (int32_t i = 0; i < repetitions; ++i) {
      QUERN_ASSIGN(const auto sample, meter.run(of));
      samples.push_back(sample);
      if (::isatty(STDERR_FILENO) != 0) {
        std::fprintf(stderr, "\r%zu of %zu cases, run %d of %d ", results.size() + 1, meter.cases().size(), i + 1,
                     repetitions);
      }
    }
    Measured measured{.result = summarize(of, samples, cost)};
    for (const ThroughputSample& sample : samples) measured.seconds += sample.seconds;
    if (profile != nullptr) measured.ops = profile->sums();
    results.push_back(std::move(measured));
  }
  if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\x1b[K", stderr);
  return results;
}

struct Report {
  std::string model, device, precision;
  int32_t threads = 0;
  bool with_profile = false;
  DecodeCost cost;
  std::vector<Measured> results;
  std::optional<CpuPeaks> peaks;
};

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

double rate(double amount, double seconds) {
  return seconds > 0 ? amount * 1e-9 / seconds : 0;
}

Json to_json(const std::vector<OpProfile::Sum>& ops) {
  Json json = Json::array();
  for (const OpProfile::Sum& op : ops) {
    json.push_back({{"op", op.label()},
                    {"calls", op.calls},
                    {"ms", rounded(1000 * op.seconds)},
                    {"gbps", rounded(rate(op.bytes, op.seconds))},
                    {"gmacs", rounded(rate(op.macs, op.seconds))}});
  }
  return json;
}

Json to_json(const Report& report) {
  Json results = Json::array();
  for (const Measured& measured : report.results) {
    const ThroughputResult& result = measured.result;
    results.push_back({{"n_prompt", result.of.n_prompt},
                       {"n_gen", result.of.n_gen},
                       {"batch", result.of.batch},
                       {"avg_ts", rounded(result.mean_tokens_per_second)},
                       {"stddev_ts", rounded(result.stddev_tokens_per_second)},
                       {"gbps", rounded(result.gbytes_per_second)},
                       {"gmacs", rounded(result.gmacs_per_second)}});
    if (report.with_profile) {
      results.back()["ms"] = rounded(1000 * measured.seconds);
      results.back()["profile"] = to_json(measured.ops);
    }
  }
  Json json = {{"model", report.model},
               {"device", report.device},
               {"precision", report.precision},
               {"threads", report.threads},
               {"weight_bytes_per_token", report.cost.weight_bytes},
               {"macs_per_token", report.cost.macs},
               {"results", std::move(results)}};
  if (const auto& peaks = report.peaks) {
    json["roofline"] = {{"read_gbps", rounded(peaks->read_gbytes)},
                        {"int8_gmacs", rounded(peaks->int8_gmacs)},
                        {"int8_tile_gmacs", rounded(peaks->int8_tile_gmacs)},
                        {"bf16_gmacs", rounded(peaks->bf16_gmacs)},
                        {"f32_gmacs", rounded(peaks->f32_gmacs)}};
  }
  return json;
}

void print_profile(const Measured& measured) {
  std::printf("\n%-38s %9s %10s %7s %9s %9s\n", "operation", "calls", "ms", "%", "GB/s", "GMAC/s");
  const auto line = [&](const std::string& label, int64_t calls, double seconds) {
    std::printf("%-38s %9lld %10.2f %7.2f", label.c_str(), static_cast<long long>(calls), 1000 * seconds,
                100 * seconds / measured.seconds);
  };
  double inside = 0;
  for (const OpProfile::Sum& op : measured.ops) {
    inside += op.seconds;
    line(op.label(), op.calls, op.seconds);
    if (op.bytes > 0) std::printf(" %9.2f %9.2f", rate(op.bytes, op.seconds), rate(op.macs, op.seconds));
    std::printf("\n");
  }
  line("between operations", 0, measured.seconds - inside);
  std::printf("\n");
}

void print_table(const Report& report) {
  std::printf("%s on %s, %s, %d threads; a token reads %.1f MB of weights and makes %.1f M multiply-adds\n",
              report.model.c_str(), report.device.c_str(), report.precision.c_str(), report.threads,
              static_cast<double>(report.cost.weight_bytes) * 1e-6, static_cast<double>(report.cost.macs) * 1e-6);
  std::printf("%8s %8s %8s %20s %10s %10s\n", "prompt", "generate", "streams", "tokens/s", "GB/s", "GMAC/s");
  for (const Measured& measured : report.results) {
    const ThroughputResult& result = measured.result;
    const std::string rate =
        fmt::format("{:.2f} ± {:.2f}", result.mean_tokens_per_second, result.stddev_tokens_per_second);
    std::printf("%8d %8d %8d %21s %10.2f %10.2f\n", result.of.n_prompt, result.of.n_gen, result.of.batch, rate.c_str(),
                result.gbytes_per_second, result.gmacs_per_second);
    if (report.with_profile) print_profile(measured);
  }
  if (const auto& peaks = report.peaks) {
    std::printf(
        "this machine at most: read %.1f GB/s; GMAC/s: int8 %.0f, int8 tiles %.0f, bfloat16 %.0f, float32 %.0f\n",
        peaks->read_gbytes, peaks->int8_gmacs, peaks->int8_tile_gmacs, peaks->bf16_gmacs, peaks->f32_gmacs);
  }
}

// `file` is open already: a path that cannot be written is told before anything is measured.
Status write_trace(const OpProfile& profile, const std::string& path, std::ofstream& file) {
  file << profile.trace_json();
  file.close();
  if (!file) return io_error(fmt::format("--trace: cannot write {}", path));
  if (profile.spans_left_out() > 0) {
    std::fprintf(stderr, "%s: the first %zu operations; %lld later ones are left out\n", path.c_str(), kTraceSpansMax,
                 static_cast<long long>(profile.spans_left_out()));
  }
  return {};
}

Status bench(BenchArgs args) {
  if (args.repetitions < 1) return invalid_argument(fmt::format("--repetitions: {} is less than 1", args.repetitions));
  QUERN_ASSIGN(auto cases, cases_of(args));
  if (cases.empty()) return invalid_argument("--n-prompt, --n-gen: both are 0, there is nothing to measure");
  for (const ThroughputCase& of : cases) {
    // A batch over the token budget is refused by its own name later.
    const int32_t streams = std::min(of.batch, args.engine.max_num_batched_tokens);
    args.engine.max_num_seqs = std::max(args.engine.max_num_seqs, streams);
  }
  QUERN_ASSIGN(RunnerOptions options, runner_options(args.engine));
  std::ofstream trace;
  if (!args.trace.empty()) {
    trace.open(args.trace, std::ios::binary);
    if (!trace) return io_error(fmt::format("--trace: cannot write {}", args.trace));
  }
  std::optional<OpProfile> profile;
  if (args.profile || !args.trace.empty()) options.profile = &profile.emplace(args.trace.empty() ? 0 : kTraceSpansMax);
  QUERN_ASSIGN(const auto path, resolve_model(args.model));
  QUERN_ASSIGN(const auto runner, load_runner(path, options));
  QUERN_ASSIGN(auto meter, ThroughputMeter::create(*runner, std::move(cases)));

  Report report{.model = path.filename().string(),
                .device = std::string(runner->device().name()),
                .precision = args.engine.precision,
                .threads = options.num_threads > 0 ? options.num_threads : usable_cores(),
                .with_profile = args.profile,
                .cost = runner->model().decode_cost()};
  QUERN_ASSIGN(report.results, measure(meter, report.cost, args.repetitions, options.profile));
  if (!args.trace.empty()) QUERN_TRY(write_trace(*profile, args.trace, trace));
  if (args.roofline) {
    ThreadPool pool(report.threads);
    report.peaks = measure_cpu_peaks(pool);
  }
  if (args.json) {
    std::printf("%s\n", dump_json(to_json(report)).c_str());
  } else {
    print_table(report);
  }
  return {};
}

}  // namespace

void add_bench(CLI::App& app, ExitCode& exit) {
  const auto args = std::make_shared<BenchArgs>();
  CLI::App* command = app.add_subcommand("bench", "measure tokens per second");
  add_measure_options(*command, *args);
  command->add_option("-p,--n-prompt", args->n_prompt, "lengths of prompts, comma-separated; 0: none")
      ->capture_default_str();
  command->add_option("-n,--n-gen", args->n_gen, "tokens to generate, comma-separated; 0: none")->capture_default_str();
  command->add_option("-b,--batch", args->batch, "streams that generate side by side, comma-separated")
      ->capture_default_str();
  command->add_option("-r,--repetitions", args->repetitions, "runs of each case")->capture_default_str();
  command->add_flag("--roofline", args->roofline, "also measure what the machine can do at most");
  command->add_flag("--profile", args->profile, "also print what each kind of operation took");
  command->add_option("--trace", args->trace, "write every operation to a trace file, which Perfetto opens");
  command->callback([args, command, &exit] { finish(bench(*args), *command, exit); });
}

}  // namespace quern::cli
