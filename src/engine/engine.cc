// The engine's thread and the door to it: requests are checked by whoever submits them, then travel as messages to the
// one thread that owns the core.
#include "quern/engine.h"

#include <atomic>
#include <cmath>
#include <future>
#include <mutex>
#include <thread>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "engine/core.h"
#include "engine/engine_factory.h"
#include "engine/kv_sizing.h"
#include "engine/mailbox.h"
#include "engine/open_disk.h"
#include "text/grammar.h"

namespace quern {

namespace {

struct SubmitMessage {
  int64_t request_id = 0;
  std::shared_ptr<const ValidRequest> valid;
};
struct CancelMessage {
  int64_t request_id = 0;
};
struct StopMessage {};
// Weights that the engine's thread shall make ready: the device is its own.
struct AdapterMessage {
  AdapterData data;
  std::shared_ptr<std::promise<Result<std::shared_ptr<const Adapter>>>> ready;
};
using Message = std::variant<SubmitMessage, CancelMessage, AdapterMessage, StopMessage>;
using EngineMailbox = Mailbox<Message>;

constexpr int32_t kSavedAtOnce = 8;     // blocks
constexpr int32_t kDraftSequences = 4;  // of full length, that a draft model can keep

class Stream final : public EventStream {
 public:
  Stream(std::shared_ptr<EngineMailbox> mailbox, int64_t request_id, std::shared_ptr<const ValidRequest> valid)
      : mailbox_(std::move(mailbox)), request_id_(request_id), valid_(std::move(valid)) {}
  ~Stream() override {
    valid_->events.on_ready(nullptr, 1);
    if (!finished()) cancel();
  }

  std::optional<Event> next() override { return valid_->events.next(); }
  std::optional<Event> try_next() override { return valid_->events.try_next(); }
  void cancel() override { mailbox_->push(CancelMessage{request_id_}); }
  void on_ready(std::function<void()> callback, size_t events_min) override {
    valid_->events.on_ready(std::move(callback), events_min);
  }
  bool finished() const override { return valid_->events.finished(); }

 private:
  std::shared_ptr<EngineMailbox> mailbox_;  // outlives the engine, so that a late cancel finds it
  int64_t request_id_;
  std::shared_ptr<const ValidRequest> valid_;
};

class EngineAdapters final : public Adapters {
 public:
  EngineAdapters(const ModelConfig& config, int32_t count_max, std::shared_ptr<EngineMailbox> mailbox)
      : config_(config), table_(count_max), mailbox_(std::move(mailbox)) {}

  Status load(AdapterInfo info, bool reload) override {
    if (info.name.empty()) return invalid_argument("adapter: the name is empty");
    if (!std::isfinite(info.scale)) return invalid_argument("adapter: the scale is not finite");
    QUERN_TRY(table_.check_free(info.name, reload));
    QUERN_ASSIGN(AdapterData data, read_adapter(info.path, config_));
    auto ready = std::make_shared<std::promise<Result<std::shared_ptr<const Adapter>>>>();
    auto adapter = ready->get_future();
    mailbox_->push(AdapterMessage{std::move(data), std::move(ready)});
    QUERN_ASSIGN(auto made, adapter.get());
    info.rank = made->rank_max();
    info.bytes = made->bytes();
    return table_.add(std::move(info), std::move(made), reload);
  }
  Status unload(const std::string& name) override { return table_.remove(name); }
  std::vector<AdapterInfo> list() const override { return table_.list(); }
  AdapterTable& table() { return table_; }

 private:
  const ModelConfig& config_;
  AdapterTable table_;
  std::shared_ptr<EngineMailbox> mailbox_;
};

class ThreadedEngine final : public Engine {
 public:
  ThreadedEngine(EngineParts parts, const EngineOptions& options, const RequestLimits& limits,
                 std::unique_ptr<DraftModel> draft, std::unique_ptr<DiskTier> disk, std::unique_ptr<EngineCore> core)
      : parts_(std::move(parts)),
        words_(parts_.tokenizer ? std::make_unique<TokenWords>(parts_.tokenizer) : nullptr),
        limits_(limits),
        outstanding_max_(int64_t{options.max_num_seqs} + options.max_waiting),
        grammars_(parts_.tokenizer ? std::make_unique<GrammarCompiler>(parts_.tokenizer, parts_.eos_ids) : nullptr),
        draft_(std::move(draft)),
        disk_(std::move(disk)),
        core_(std::move(core)),
        mailbox_(std::make_shared<EngineMailbox>()),
        adapters_(parts_.runner->config(), options.max_loras, mailbox_),
        published_(core_->stats()),
        thread_([this] { run(); }) {}
  ~ThreadedEngine() override {
    mailbox_->push(StopMessage{});
    thread_.join();
  }

  Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSpec& spec) override {
    if (!grammars_) return unsupported("grammar: the engine has no tokenizer");
    return grammars_->compile(spec);
  }

  Result<std::unique_ptr<EventStream>> submit(Request request) override {
    if (request.grammar != nullptr) {
      const auto* grammar = dynamic_cast<const CompiledGrammar*>(request.grammar.get());
      if (grammar == nullptr || &grammar->tokenizer() != parts_.tokenizer.get()) {
        return invalid_argument("grammar: was compiled for another engine");
      }
    }
    QUERN_ASSIGN(auto valid, validate_request(std::move(request), limits_, parts_.eos_ids,
                                              {.words = words_.get(), .adapters = &adapters_.table()}));
    if (outstanding_.fetch_add(1) >= outstanding_max_) {
      outstanding_.fetch_sub(1);
      return make_error(ErrorCode::kResourceExhausted,
                        fmt::format("the queue is full: {} requests run or wait", outstanding_max_));
    }
    const int64_t request_id = next_request_id_.fetch_add(1);
    auto stream = std::make_unique<Stream>(mailbox_, request_id, valid);
    undelivered_.fetch_add(1);
    mailbox_->push(SubmitMessage{request_id, std::move(valid)});
    return stream;
  }

  Adapters& adapters() override { return adapters_; }
  int32_t vocab_size() const override { return limits_.vocab_size; }
  int32_t max_model_len() const override { return limits_.max_model_len; }
  EngineStats stats() const override {
    const std::lock_guard lock(stats_mutex_);
    EngineStats stats = published_;
    stats.waiting += undelivered_.load();
    return stats;
  }

 private:
  void run() {
    std::vector<Message> messages;
    bool stopping = false;
    while (!stopping) {
      // Idle time goes to the disk tier, in pieces: a request that comes does not wait long.
      const bool busy = !core_->idle() || core_->save_some(kSavedAtOnce);
      mailbox_->drain(messages, busy ? EngineMailbox::Wait::kNo : EngineMailbox::Wait::kUntilOneComes);
      int32_t delivered = 0;
      for (Message& message : messages) {
        if (auto* submit = std::get_if<SubmitMessage>(&message)) {
          core_->submit(submit->request_id, std::move(submit->valid));
          ++delivered;
        } else if (const auto* cancel = std::get_if<CancelMessage>(&message)) {
          core_->cancel(cancel->request_id);
        } else if (auto* adapter = std::get_if<AdapterMessage>(&message)) {
          adapter->ready->set_value(Adapter::create(std::move(adapter->data), parts_.runner->device()));
        } else {
          stopping = true;
        }
      }
      if (stopping) core_->cancel_all();
      core_->step();
      if (core_->idle()) core_->check();
      publish(delivered);
    }
    while (core_->save_some(kSavedAtOnce)) continue;
  }

  void publish(int32_t delivered) {
    outstanding_.fetch_sub(core_->requests_ended() - requests_ended_seen_);
    requests_ended_seen_ = core_->requests_ended();
    const std::lock_guard lock(stats_mutex_);
    undelivered_.fetch_sub(delivered);
    published_ = core_->stats();
  }

  EngineParts parts_;
  const std::unique_ptr<TokenWords> words_;  // null: no text
  const RequestLimits limits_;
  const int64_t outstanding_max_;
  const std::unique_ptr<GrammarCompiler> grammars_;  // null: no tokenizer
  std::unique_ptr<DraftModel> draft_;                // null: none
  std::unique_ptr<DiskTier> disk_;                   // null: none
  std::unique_ptr<EngineCore> core_;                 // the thread's alone, once it runs
  int64_t requests_ended_seen_ = 0;                  // the thread's alone
  std::shared_ptr<EngineMailbox> mailbox_;
  EngineAdapters adapters_;
  std::atomic<int64_t> next_request_id_ = 0;
  std::atomic<int64_t> outstanding_ = 0;  // submitted and not wholly ended
  std::atomic<int32_t> undelivered_ = 0;  // submitted, still in the mailbox
  mutable std::mutex stats_mutex_;
  EngineStats published_;  // guarded by stats_mutex_
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
  }
  return "unknown";
}

namespace {

Status check_scheduling(const EngineOptions& options) {
  const auto negative = [](std::string_view name, auto value) {
    return invalid_argument(fmt::format("{}: {} is negative", name, value));
  };
  if (options.max_waiting < 0) return negative("max_waiting", options.max_waiting);
  if (options.long_prefill_token_threshold < 0) {
    return negative("long_prefill_token_threshold", options.long_prefill_token_threshold);
  }
  if (options.max_num_partial_prefills < 0) {
    return negative("max_num_partial_prefills", options.max_num_partial_prefills);
  }
  if (!(options.decode_pace == 0 || (options.decode_pace >= 1 && options.decode_pace <= 1e6))) {
    return invalid_argument(fmt::format("decode_pace: {} is neither 0 nor at least 1", options.decode_pace));
  }
  if (options.num_speculative_tokens < 1 || options.num_speculative_tokens > 64) {
    return invalid_argument(
        fmt::format("num_speculative_tokens: {} is not between 1 and 64", options.num_speculative_tokens));
  }
  if (options.max_loras < 1) return invalid_argument(fmt::format("max_loras: {} is less than 1", options.max_loras));
  if (options.adapters.size() > static_cast<size_t>(options.max_loras)) {
    return invalid_argument(
        fmt::format("max_loras: {} are fewer than the {} adapters named", options.max_loras, options.adapters.size()));
  }
  if (options.scheduling_policy != "priority" && options.scheduling_policy != "fcfs") {
    return invalid_argument(
        fmt::format("scheduling_policy: '{}' is not one of priority, fcfs", options.scheduling_policy));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> create_engine(EngineParts parts, const EngineOptions& options) {
  QUERN_TRY(check_scheduling(options));
  QUERN_ASSIGN(const Speculation speculation, parse_speculation("speculative_method", options.speculative_method));
  const ModelConfig& config = parts.runner->config();
  KvLayout layout = parts.runner->window_kv_groups();
  const KvNeeds needs = kv_needs(config, layout, available_memory_bytes());
  QUERN_ASSIGN(const KvSize size, size_kv(options, needs));
  QUERN_TRY(parts.runner->allocate_kv(size.num_blocks, std::move(layout)));
  QUERN_ASSIGN(auto disk, open_disk(options, *parts.runner));
  std::unique_ptr<DraftModel> draft;
  if (parts.draft) {
    const int64_t tokens = std::min<int64_t>(int64_t{kDraftSequences} * size.max_model_len,
                                             int64_t{size.num_blocks} * kKvBlockSize / needs.groups.count());
    QUERN_ASSIGN(draft, DraftModel::create(std::move(parts.draft), config.vocab_size, tokens));
  } else if (speculation == Speculation::kDraft) {
    return invalid_argument("speculative_method: draft needs a speculative_model");
  }
  const CoreOptions core_options{
      .planner = {.max_num_batched_tokens = options.max_num_batched_tokens,
                  .max_num_seqs = options.max_num_seqs,
                  .long_prefill_tokens_max = options.long_prefill_token_threshold,
                  .max_num_partial_prefills = options.max_num_partial_prefills},
      .enable_prefix_caching = options.enable_prefix_caching,
      .decode_pace = options.decode_pace,
      .draft = draft.get(),
      .disk = disk.get(),
      .prefix_root = disk ? disk->root() : PrefixKey{.low = fresh_seed(), .high = fresh_seed()}};
  QUERN_ASSIGN(auto core, EngineCore::create(*parts.runner, parts.tokenizer.get(), core_options));
  const RequestLimits limits{.vocab_size = config.vocab_size,
                             .max_model_len = size.max_model_len,
                             .priorities = options.scheduling_policy == "priority",
                             .speculation = speculation,
                             .num_speculative_tokens = options.num_speculative_tokens,
                             .has_draft_model = draft != nullptr};
  std::unique_ptr<Engine> engine = std::make_unique<ThreadedEngine>(std::move(parts), options, limits, std::move(draft),
                                                                    std::move(disk), std::move(core));
  for (const AdapterInfo& adapter : options.adapters) QUERN_TRY(engine->adapters().load(adapter));
  return engine;
}

}  // namespace quern
