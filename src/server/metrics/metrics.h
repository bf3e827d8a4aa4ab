// What the server counts, and how it is shown: Prometheus text under vLLM's names. Thread-safe.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "quern/engine.h"
#include "server/model_table.h"

namespace quern {

std::string label_value(std::string_view text);  // escaped, without the quotes

// Counts per bucket, sum and number of what was observed.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value);
  // Lines "NAME_bucket{LABELS,le="…"} N" …, NAME_sum, NAME_count.
  void render(const std::string& name, const std::string& labels, std::string& out) const;

 private:
  std::span<const double> bounds_;  // ascending
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

enum class Outcome : uint8_t { kStop, kLength, kAbort, kError };
inline constexpr int kNumOutcomes = 4;
const char* outcome_name(Outcome outcome);

// Of one generating model.
struct GenerationMetrics {
  GenerationMetrics();
  Histogram first_token_seconds, inter_token_seconds, output_token_seconds, e2e_seconds, queue_seconds, prefill_seconds,
      decode_seconds, inference_seconds;
  Histogram prompt_tokens, generation_tokens, max_tokens, answers;
  std::atomic<uint64_t> outcomes[kNumOutcomes] = {};
};

// Spans of requests on their way to a collector.
struct SpanCounts {
  std::atomic<uint64_t> sent = 0, dropped = 0;
};

class Metrics {
 public:
  explicit Metrics(std::string prefix = "vllm:") : prefix_(std::move(prefix)) {}

  // The engine again, with every request observed: latencies as the reader sees them, one outcome each.
  std::unique_ptr<Engine> observe(std::unique_ptr<Engine> engine, const std::string& model_id);
  void count_http(const std::string& method, const std::string& route, int status, double seconds);

  SpanCounts& spans() { return spans_; }

  std::string render(const ModelTable& models) const;

 private:
  struct HttpKey {
    std::string method, route;
    int status_class;
    auto operator<=>(const HttpKey&) const = default;
  };
  void render_generation(const std::vector<const ServedModel*>& models, std::string& out) const;
  void render_encoders(const std::vector<const ServedModel*>& models, std::string& out) const;
  void render_http(std::string& out) const;

  std::string prefix_;
  SpanCounts spans_;
  std::map<std::string, std::unique_ptr<GenerationMetrics>> generation_;  // by model id; filled before requests come
  mutable std::mutex http_mutex_;
  std::map<HttpKey, uint64_t> http_requests_;                       // guarded by http_mutex_
  std::map<std::string, std::unique_ptr<Histogram>> http_seconds_;  // by route; guarded by http_mutex_
};

}  // namespace quern
