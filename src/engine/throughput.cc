#include "engine/throughput.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace quern {

namespace {

// Tokens of one stream, the one it starts from and the last one, which is never computed, included.
int32_t stream_tokens(const ThroughputCase& of) {
  return of.n_gen > 0 ? of.n_gen + 2 : of.n_prompt + 1;
}

Status check_case(const ThroughputCase& of, const Runner& runner) {
  if (of.n_prompt < 0) return invalid_argument(fmt::format("n-prompt: {} is negative", of.n_prompt));
  if (of.n_gen < 0) return invalid_argument(fmt::format("n-gen: {} is negative", of.n_gen));
  QUERN_CHECK((of.n_prompt > 0) != (of.n_gen > 0));
  const int32_t context = runner.config().context_length;
  if (std::max(of.n_prompt, of.n_gen) > context - 2) {
    return invalid_argument(fmt::format("{}: {} tokens do not fit the model's context of {}",
                                        of.n_gen > 0 ? "n-gen" : "n-prompt", std::max(of.n_prompt, of.n_gen), context));
  }
  const RunnerOptions& limits = runner.options();
  const int32_t batch_max = std::min(limits.max_num_batched_tokens, limits.max_logits_rows);
  if (of.batch < 1 || of.batch > batch_max) {
    return invalid_argument(fmt::format("batch: {} is outside [1, {}]", of.batch, batch_max));
  }
  return {};
}

Status check_answers(const std::vector<std::shared_ptr<const ValidRequest>>& requests) {
  for (const auto& request : requests) {
    while (const auto event = request->events.try_next()) {
      if (event->finish && event->finish->error) return std::unexpected(*event->finish->error);
    }
  }
  return {};
}

}  // namespace

ThroughputResult summarize(const ThroughputCase& of, const std::vector<ThroughputSample>& samples,
                           const DecodeCost& cost) {
  QUERN_CHECK(!samples.empty());
  ThroughputResult result{.of = of};
  const double count = static_cast<double>(samples.size());
  double seconds = 0, steps = 0, tokens = 0;
  for (const ThroughputSample& sample : samples) {
    result.mean_tokens_per_second += sample.tokens_per_second() / count;
    seconds += sample.seconds;
    steps += static_cast<double>(sample.steps);
    tokens += static_cast<double>(sample.tokens);
  }
  for (const ThroughputSample& sample : samples) {
    const double difference = sample.tokens_per_second() - result.mean_tokens_per_second;
    result.stddev_tokens_per_second += difference * difference;
  }
  result.stddev_tokens_per_second = samples.size() > 1 ? std::sqrt(result.stddev_tokens_per_second / (count - 1)) : 0.0;
  const double logits_rows = of.n_gen > 0 ? tokens : count * of.batch;
  const double macs =
      tokens * static_cast<double>(cost.macs - cost.logits_macs) + logits_rows * static_cast<double>(cost.logits_macs);
  result.gbytes_per_second = steps * static_cast<double>(cost.weight_bytes) / seconds * 1e-9;
  result.gmacs_per_second = macs / seconds * 1e-9;
  return result;
}

Result<ThroughputMeter> ThroughputMeter::create(Runner& runner, std::vector<ThroughputCase> cases) {
  KvLayout layout = runner.window_kv_groups();
  const BlockGroups groups{.block_size = kKvBlockSize, .windows = layout.windows};
  const int32_t chunk = runner.options().max_num_batched_tokens;
  int32_t blocks = 1, batch = 1;
  for (const ThroughputCase& of : cases) {
    QUERN_TRY(check_case(of, runner));
    // One block of each group to spare for each stream: the planner keeps as many free before it admits another.
    const int64_t per_stream = peak_blocks(groups, stream_tokens(of), chunk) + groups.count();
    blocks = std::max(blocks, static_cast<int32_t>(of.batch * per_stream));
    batch = std::max(batch, of.batch);
  }
  QUERN_TRY(runner.allocate_kv(blocks, std::move(layout)));
  const CoreOptions options{
      .planner = {.max_num_batched_tokens = runner.options().max_num_batched_tokens, .max_num_seqs = batch},
      .enable_prefix_caching = false};
  QUERN_ASSIGN(auto core, EngineCore::create(runner, nullptr, options));
  return ThroughputMeter(runner, std::move(cases), std::move(core));
}

Result<ThroughputMeter::Requests> ThroughputMeter::submit(const ThroughputCase& of) {
  const int32_t vocab_size = runner_->config().vocab_size;
  const RequestLimits limits{.vocab_size = vocab_size, .max_model_len = runner_->config().context_length};
  Requests requests;
  for (int32_t stream = 0; stream < of.batch; ++stream) {
    Request request;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    request.max_tokens = of.n_gen + 1;
    for (int32_t i = 0; i < std::max(of.n_prompt, 1); ++i) {
      const double uniform = uniform_at(static_cast<uint64_t>(stream), static_cast<uint64_t>(i));
      request.prompt_ids.push_back(static_cast<int32_t>(uniform * vocab_size));
    }
    QUERN_ASSIGN(auto valid, validate_request(std::move(request), limits, {}));
    requests.push_back(std::move(valid));
  }
  for (const auto& request : requests) core_->submit(next_request_++, request);
  return requests;
}

Result<ThroughputSample> ThroughputMeter::run(const ThroughputCase& of) {
  QUERN_ASSIGN(const Requests requests, submit(of));
  const auto generated = [this] { return static_cast<int64_t>(core_->stats().generation_tokens_total); };
  const int64_t generated_before = generated();
  if (of.n_gen > 0) {
    while (!core_->idle() && generated() < generated_before + of.batch) core_->step();
  }
  const int64_t generated_at_start = generated();
  ThroughputSample sample;
  OpProfile* const profile = runner_->options().profile;
  if (profile != nullptr) profile->set_enabled(true);
  const auto start = EngineClock::now();
  for (; !core_->idle(); ++sample.steps) core_->step();
  sample.seconds = std::chrono::duration<double>(EngineClock::now() - start).count();
  if (profile != nullptr) profile->set_enabled(false);
  QUERN_TRY(check_answers(requests));
  sample.tokens = of.n_gen > 0 ? generated() - generated_at_start : int64_t{of.n_prompt} * of.batch;
  return sample;
}

}  // namespace quern
