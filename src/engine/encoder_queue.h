// Encoder work of many callers on one thread: bounded, and batched over whoever waits. Callers take turns input by
// input, so that a long list does not hold a short one back.
//
// Thread-safe. The model's thread is the queue's own; callers are told by a callback and never block.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/encoder_service.h"
#include "engine/yes_no_reranker.h"

namespace quern {

enum class EncoderTask : uint8_t {
  kEmbed,     // outputs have an embedding
  kClassify,  // outputs have one raw logit per label
  kYesNo,     // answers submit_rerank() alone
};

struct EncoderQueueOptions {
  size_t inputs_waiting_max = 8192;  // one more is kResourceExhausted
  int64_t batch_tokens_max = 4096;   // of one forward; a longer input runs alone
};

struct EncoderQueueStats {
  size_t inputs_waiting = 0;
  uint64_t inputs_total = 0, tokens_total = 0, batches_total = 0;
};

struct EncoderAnswer {
  std::vector<EncoderModel::Output> outputs;  // one per input, in order
  int64_t prompt_tokens = 0;
};

class EncoderQueue {
 public:
  using Answer = Result<EncoderAnswer>;

  // What a caller holds. Destroying it drops whatever of the job has not run.
  class Ticket {
   public:
    virtual ~Ticket() = default;
    virtual std::optional<Answer> take() = 0;  // nullopt: not done yet. Gives the answer once.
  };

  // The task follows from the model: an encoder, a classifier, or a causal language model whose files speak of pooling;
  // `yes_no` asks for the reranker of yes_no_reranker.h instead.
  static Result<std::unique_ptr<EncoderQueue>> create(std::unique_ptr<ModelSource> source,
                                                      const EncoderOptions& encoder, const EncoderQueueOptions& options,
                                                      bool yes_no);
  ~EncoderQueue();

  EncoderTask task() const { return task_; }
  int32_t tokens_max() const { return tokens_max_; }                  // of one input
  int32_t width() const { return width_; }                            // of an embedding
  const std::vector<std::string>& labels() const { return labels_; }  // of a classifier

  // `on_done` is called once, from the queue's thread, when take() has the answer. Errors: kInvalidArgument naming
  // the input ("input 3: …"), kResourceExhausted when too much waits.
  Result<std::unique_ptr<Ticket>> submit(std::vector<Encoding> inputs, std::function<void()> on_done);
  // Only kYesNo. One score per document, a probability, in Output::scores.
  Result<std::unique_ptr<Ticket>> submit_rerank(std::string query, std::vector<std::string> documents,
                                                std::function<void()> on_done);
  EncoderQueueStats stats() const;

 private:
  struct Job;
  struct JobTicket;
  explicit EncoderQueue(const EncoderQueueOptions& options) : options_(options) {}
  Status check(const std::vector<Encoding>& inputs) const;
  Result<std::unique_ptr<Ticket>> enqueue(std::shared_ptr<Job> job);
  void run();
  void run_whole(Job& job);
  void run_batch(std::unique_lock<std::mutex>& lock);
  void drop_cancelled();
  void finish(const std::shared_ptr<Job>& job, Answer answer);

  EncoderQueueOptions options_;
  EncoderTask task_ = EncoderTask::kEmbed;
  int32_t tokens_max_ = 0, width_ = 0, vocab_size_ = 0;
  std::vector<std::string> labels_;
  std::unique_ptr<EncoderService> service_;  // null for kYesNo
  std::unique_ptr<YesNoReranker> yes_no_;    // null otherwise

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Job>> jobs_;  // guarded by mutex_
  EncoderQueueStats stats_;                // guarded by mutex_
  bool stopping_ = false;                  // guarded by mutex_
  std::thread thread_;                     // last: it uses all of the above
};

// Whether this file or folder is served by an EncoderQueue rather than by an Engine.
bool is_encoding_source(const ModelSource& source);

}  // namespace quern
