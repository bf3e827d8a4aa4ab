#include "server/metrics/metrics.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "server/metrics/process.h"

namespace quern {
namespace {

// Bounds as vLLM's dashboards know them.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                        1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr double kInterTokenBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                        0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr double kRequestBounds[] = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                     30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr double kTokenBounds[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kAnswerBounds[] = {1, 2, 5, 10, 20};

void head(std::string& out, const std::string& name, const char* type, const char* help) {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

std::string labels_of(const ServedModel& model) {
  return fmt::format("engine=\"0\",model_name=\"{}\"", label_value(model.id));
}

// One line a model.
void series(std::string& out, const std::vector<const ServedModel*>& models, const std::string& name, const char* type,
            const char* help, double (*value)(const EngineStats&)) {
  head(out, name, type, help);
  for (const ServedModel* model : models) {
    out += fmt::format("{}{{{}}} {}\n", name, labels_of(*model), value(model->engine->stats()));
  }
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

void Histogram::observe(double value) {
  const auto place = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::render(const std::string& name, const std::string& labels, std::string& out) const {
  uint64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, total);
  }
  out += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_.load(), total);
}

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kStop: return "stop";
    case Outcome::kLength: return "length";
    case Outcome::kAbort: return "abort";
    case Outcome::kError: return "error";
  }
  return "error";
}

GenerationMetrics::GenerationMetrics()
    : first_token_seconds(kFirstTokenBounds),
      inter_token_seconds(kInterTokenBounds),
      output_token_seconds(kInterTokenBounds),
      e2e_seconds(kRequestBounds),
      queue_seconds(kRequestBounds),
      prefill_seconds(kRequestBounds),
      decode_seconds(kRequestBounds),
      inference_seconds(kRequestBounds),
      prompt_tokens(kTokenBounds),
      generation_tokens(kTokenBounds),
      max_tokens(kTokenBounds),
      answers(kAnswerBounds) {}

void Metrics::count_http(const std::string& method, const std::string& route, int status, double seconds) {
  const std::lock_guard lock(http_mutex_);
  ++http_requests_[{method, route, status / 100}];
  auto& histogram = http_seconds_[route];
  if (!histogram) histogram = std::make_unique<Histogram>(kInterTokenBounds);
  histogram->observe(seconds);
}

std::string Metrics::render(const ModelTable& models) const {
  std::vector<const ServedModel*> generators, encoders;
  for (const ServedModel& model : models.models()) (model.engine ? generators : encoders).push_back(&model);
  std::string out;
  if (!generators.empty()) render_generation(generators, out);
  if (!encoders.empty()) render_encoders(encoders, out);
  render_http(out);
  render_process(out);
  return out;
}

void Metrics::render_generation(const std::vector<const ServedModel*>& models, std::string& out) const {
  const auto gauge = [&](const char* name, const char* help, double (*value)(const EngineStats&)) {
    series(out, models, prefix_ + name, "gauge", help, value);
  };
  const auto counter = [&](const char* name, const char* help, double (*value)(const EngineStats&)) {
    series(out, models, prefix_ + name, "counter", help, value);
  };
  gauge("num_requests_running", "Sequences that run.", [](const EngineStats& s) { return double(s.running); });
  gauge("num_requests_waiting", "Sequences that wait.", [](const EngineStats& s) { return double(s.waiting); });
  gauge("kv_cache_usage_perc", "Share of KV blocks in use by running sequences; cached free blocks do not count.",
        [](const EngineStats& s) {
          const int32_t used = s.kv_blocks_total - s.kv_blocks_free - s.kv_blocks_cached;
          return s.kv_blocks_total == 0 ? 0.0 : double(used) / s.kv_blocks_total;
        });
  gauge("kv_blocks_total", "KV blocks: 16 tokens of one group of layers.",
        [](const EngineStats& s) { return double(s.kv_blocks_total); });
  gauge("kv_blocks_live", "KV blocks that running sequences hold; what several share counts once.",
        [](const EngineStats& s) { return double(s.kv_blocks_total - s.kv_blocks_free - s.kv_blocks_cached); });
  gauge("kv_positions_live", "Positions of live KV blocks that hold keys and values; each block has 16.",
        [](const EngineStats& s) { return double(s.kv_positions_live); });
  gauge("kv_blocks_cached", "KV blocks that only the prefix cache holds.",
        [](const EngineStats& s) { return double(s.kv_blocks_cached); });
  counter("prompt_tokens_total", "Prompt tokens of requests that produced a token.",
          [](const EngineStats& s) { return double(s.prompt_tokens_total); });
  counter("generation_tokens_total", "Tokens generated.",
          [](const EngineStats& s) { return double(s.generation_tokens_total); });
  counter("num_preemptions_total", "Sequences that gave their blocks away.",
          [](const EngineStats& s) { return double(s.preemptions_total); });
  counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
          [](const EngineStats& s) { return double(s.prefix_queries_total); });
  counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
          [](const EngineStats& s) { return double(s.prefix_hits_total); });

  head(out, prefix_ + "request_success_total", "counter", "Requests that ended, by reason.");
  for (const ServedModel* model : models) {
    const GenerationMetrics& metrics = *generation_.at(model->id);
    for (int i = 0; i < kNumOutcomes; ++i) {
      out += fmt::format("{}request_success_total{{{},finished_reason=\"{}\"}} {}\n", prefix_, labels_of(*model),
                         outcome_name(static_cast<Outcome>(i)), metrics.outcomes[i].load());
    }
  }
  const auto histogram = [&](const char* name, const char* help, Histogram GenerationMetrics::* member) {
    head(out, prefix_ + name, "histogram", help);
    for (const ServedModel* model : models) {
      (generation_.at(model->id).get()->*member).render(prefix_ + name, labels_of(*model), out);
    }
  };
  using G = GenerationMetrics;
  histogram("time_to_first_token_seconds", "From arrival to the first token.", &G::first_token_seconds);
  histogram("inter_token_latency_seconds", "Between two tokens of an answer.", &G::inter_token_seconds);
  histogram("time_per_output_token_seconds", "The same under its older name.", &G::inter_token_seconds);
  histogram("request_time_per_output_token_seconds", "Decode time of a request by its tokens.",
            &G::output_token_seconds);
  histogram("e2e_request_latency_seconds", "From arrival to the end.", &G::e2e_seconds);
  histogram("request_queue_time_seconds", "Waiting to be scheduled.", &G::queue_seconds);
  histogram("request_prefill_time_seconds", "From scheduled to the first token.", &G::prefill_seconds);
  histogram("request_decode_time_seconds", "From the first token to the last.", &G::decode_seconds);
  histogram("request_inference_time_seconds", "From scheduled to the last token.", &G::inference_seconds);
  histogram("request_prompt_tokens", "Prompt tokens of a request.", &G::prompt_tokens);
  histogram("request_generation_tokens", "Tokens generated for a request.", &G::generation_tokens);
  histogram("request_params_max_tokens", "max_tokens as asked for.", &G::max_tokens);
  histogram("request_params_n", "n as asked for.", &G::answers);
}

void Metrics::render_encoders(const std::vector<const ServedModel*>& models, std::string& out) const {
  const auto line = [&](const char* name, const char* type, const char* help,
                        double (*value)(const EncoderQueueStats&)) {
    head(out, prefix_ + name, type, help);
    for (const ServedModel* model : models) {
      out += fmt::format("{}{}{{{}}} {}\n", prefix_, name, labels_of(*model), value(model->encoder->stats()));
    }
  };
  line("encoder_inputs_waiting", "gauge", "Texts that wait to be encoded.",
       [](const EncoderQueueStats& s) { return double(s.inputs_waiting); });
  line("encoder_inputs_total", "counter", "Texts encoded.",
       [](const EncoderQueueStats& s) { return double(s.inputs_total); });
  line("encoder_tokens_total", "counter", "Tokens encoded.",
       [](const EncoderQueueStats& s) { return double(s.tokens_total); });
  line("encoder_batches_total", "counter", "Forward passes.",
       [](const EncoderQueueStats& s) { return double(s.batches_total); });
}

void Metrics::render_http(std::string& out) const {
  const std::lock_guard lock(http_mutex_);
  head(out, "http_requests_total", "counter", "Requests by method, route and class of status.");
  for (const auto& [key, count] : http_requests_) {
    out += fmt::format("http_requests_total{{handler=\"{}\",method=\"{}\",status=\"{}xx\"}} {}\n",
                       label_value(key.route), label_value(key.method), key.status_class, count);
  }
  head(out, "http_request_duration_seconds", "histogram", "Time to the end of the reply, by route.");
  for (const auto& [route, histogram] : http_seconds_) {
    histogram->render("http_request_duration_seconds", fmt::format("handler=\"{}\"", label_value(route)), out);
  }
  head(out, "otlp_spans_total", "counter", "Spans of requests, by what became of them.");
  out += fmt::format("otlp_spans_total{{result=\"sent\"}} {}\n", spans_.sent.load());
  out += fmt::format("otlp_spans_total{{result=\"dropped\"}} {}\n", spans_.dropped.load());
}

}  // namespace quern
