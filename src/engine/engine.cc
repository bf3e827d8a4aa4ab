// The engine's thread and the door to it: requests are checked by whoever submits them, then travel as messages to the
// one thread that owns the core.
#include "quern/engine.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "engine/core.h"
#include "engine/engine_factory.h"
#include "engine/kv_sizing.h"
#include "engine/mailbox.h"
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
using Message = std::variant<SubmitMessage, CancelMessage, StopMessage>;
using EngineMailbox = Mailbox<Message>;

class Stream final : public EventStream {
 public:
  Stream(std::shared_ptr<EngineMailbox> mailbox, int64_t request_id, std::shared_ptr<const ValidRequest> valid)
      : mailbox_(std::move(mailbox)), request_id_(request_id), valid_(std::move(valid)) {}
  ~Stream() override {
    valid_->events.on_ready(nullptr);
    if (!finished()) cancel();
  }

  std::optional<Event> next() override { return valid_->events.next(); }
  std::optional<Event> try_next() override { return valid_->events.try_next(); }
  void cancel() override { mailbox_->push(CancelMessage{request_id_}); }
  void on_ready(std::function<void()> callback) override { valid_->events.on_ready(std::move(callback)); }
  bool finished() const override { return valid_->events.finished(); }

 private:
  std::shared_ptr<EngineMailbox> mailbox_;  // outlives the engine, so that a late cancel finds it
  int64_t request_id_;
  std::shared_ptr<const ValidRequest> valid_;
};

class ThreadedEngine final : public Engine {
 public:
  ThreadedEngine(EngineParts parts, const EngineOptions& options, const RequestLimits& limits,
                 std::unique_ptr<EngineCore> core)
      : parts_(std::move(parts)),
        limits_(limits),
        outstanding_max_(int64_t{options.max_num_seqs} + options.max_waiting),
        grammars_(parts_.tokenizer ? std::make_unique<GrammarCompiler>(parts_.tokenizer, parts_.eos_ids) : nullptr),
        core_(std::move(core)),
        mailbox_(std::make_shared<EngineMailbox>()),
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
    QUERN_ASSIGN(auto valid, validate_request(std::move(request), limits_, parts_.eos_ids));
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
      mailbox_->drain(messages, core_->idle() ? EngineMailbox::Wait::kUntilOneComes : EngineMailbox::Wait::kNo);
      int32_t delivered = 0;
      for (Message& message : messages) {
        if (auto* submit = std::get_if<SubmitMessage>(&message)) {
          core_->submit(submit->request_id, std::move(submit->valid));
          ++delivered;
        } else if (const auto* cancel = std::get_if<CancelMessage>(&message)) {
          core_->cancel(cancel->request_id);
        } else {
          stopping = true;
        }
      }
      if (stopping) core_->cancel_all();
      core_->step();
      if (core_->idle()) core_->check();
      publish(delivered);
    }
  }

  void publish(int32_t delivered) {
    outstanding_.fetch_sub(core_->requests_ended() - requests_ended_seen_);
    requests_ended_seen_ = core_->requests_ended();
    const std::lock_guard lock(stats_mutex_);
    undelivered_.fetch_sub(delivered);
    published_ = core_->stats();
  }

  EngineParts parts_;
  const RequestLimits limits_;
  const int64_t outstanding_max_;
  const std::unique_ptr<GrammarCompiler> grammars_;  // null: no tokenizer
  std::unique_ptr<EngineCore> core_;                 // the thread's alone, once it runs
  int64_t requests_ended_seen_ = 0;                  // the thread's alone
  std::shared_ptr<EngineMailbox> mailbox_;
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

Result<std::unique_ptr<Engine>> create_engine(EngineParts parts, const EngineOptions& options) {
  if (options.max_waiting < 0) return invalid_argument(fmt::format("max_waiting: {} is negative", options.max_waiting));
  const ModelConfig& config = parts.runner->config();
  QUERN_ASSIGN(const KvSize size, size_kv(options, {.context_length = config.context_length,
                                                    .block_bytes = parts.runner->kv_block_bytes(),
                                                    .bytes_available = available_memory_bytes()}));
  QUERN_TRY(parts.runner->allocate_kv(size.num_blocks));
  const CoreOptions core_options{
      .planner = {.max_num_batched_tokens = options.max_num_batched_tokens, .max_num_seqs = options.max_num_seqs},
      .enable_prefix_caching = options.enable_prefix_caching};
  QUERN_ASSIGN(auto core, EngineCore::create(*parts.runner, parts.tokenizer.get(), core_options));
  const RequestLimits limits{.vocab_size = config.vocab_size, .max_model_len = size.max_model_len};
  return std::make_unique<ThreadedEngine>(std::move(parts), options, limits, std::move(core));
}

}  // namespace quern
