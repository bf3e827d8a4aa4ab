#include "engine/encoder_queue.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "models/encoders/encoder_config.h"

namespace quern {
namespace {

// A causal language model whose files speak of pooling is an embedding model.
bool speaks_of_pooling(const ModelSource& source) {
  if (source.folder) return source.folder->modules.is_array() || source.folder->pooling.is_object();
  const auto architecture = source.gguf->metadata().get_string("general.architecture");
  return architecture && source.gguf->metadata().find(*architecture + ".pooling_type") != nullptr;
}

// id2label of config.json, by number; empty where the files say nothing.
std::vector<std::string> read_labels(const ModelSource& source) {
  std::vector<std::string> labels;
  if (!source.folder) return labels;
  const auto map = source.folder->config.find("id2label");
  if (map == source.folder->config.end() || !map->is_object()) return labels;
  for (size_t i = 0; i < map->size(); ++i) {
    const auto label = map->find(std::to_string(i));
    if (label == map->end() || !label->is_string()) return {};
    labels.push_back(label->get<std::string>());
  }
  return labels;
}

}  // namespace

bool is_encoding_source(const ModelSource& source) {
  return is_encoder_source(source) || speaks_of_pooling(source);
}

struct EncoderQueue::Job {
  std::vector<Encoding> inputs;
  std::string query;                   // kYesNo
  std::vector<std::string> documents;  // kYesNo
  std::function<void()> on_done;
  std::atomic<bool> cancelled = false;

  // Of the queue's thread, under mutex_.
  size_t num_begun = 0;
  EncoderAnswer answer;
  std::optional<Error> error;
  std::optional<Answer> result;

  Answer take_answer() { return error ? Answer(std::unexpected(*error)) : Answer(std::move(answer)); }
  size_t size() const { return inputs.size() + documents.size(); }
};

struct EncoderQueue::JobTicket final : Ticket {
  JobTicket(EncoderQueue& owner, std::shared_ptr<Job> j) : queue(owner), job(std::move(j)) {}
  ~JobTicket() override { job->cancelled.store(true); }
  std::optional<Answer> take() override {
    const std::lock_guard lock(queue.mutex_);
    return std::exchange(job->result, std::nullopt);
  }
  EncoderQueue& queue;
  std::shared_ptr<Job> job;
};

Result<std::unique_ptr<EncoderQueue>> EncoderQueue::create(std::unique_ptr<ModelSource> source,
                                                           const EncoderOptions& encoder,
                                                           const EncoderQueueOptions& options, bool yes_no) {
  std::unique_ptr<EncoderQueue> queue(new EncoderQueue(options));
  QUERN_ASSIGN(const ModelConfig config, read_model_config(*source));
  queue->tokens_max_ = config.context_length;
  queue->width_ = config.hidden_size;
  queue->vocab_size_ = config.vocab_size;
  queue->labels_ = read_labels(*source);
  if (yes_no && !is_encoding_source(*source)) {
    queue->task_ = EncoderTask::kYesNo;
    QUERN_ASSIGN(queue->yes_no_, YesNoReranker::create(std::move(source), encoder));
  } else {
    QUERN_ASSIGN(queue->service_, EncoderService::create(std::move(source), encoder));
    queue->tokens_max_ = queue->service_->tokens_max();
    const bool classifies = queue->service_->config().kind == ModelKind::kClassifier;
    queue->task_ = classifies ? EncoderTask::kClassify : EncoderTask::kEmbed;
  }
  queue->thread_ = std::thread([raw = queue.get()] { raw->run(); });
  return queue;
}

EncoderQueue::~EncoderQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status EncoderQueue::check(const std::vector<Encoding>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Encoding& input = inputs[i];
    if (input.ids.empty()) return invalid_argument(fmt::format("input {}: has no tokens", i));
    if (std::ssize(input.ids) > tokens_max_) {
      return invalid_argument(
          fmt::format("input {}: {} tokens, the model takes at most {}", i, input.ids.size(), tokens_max_));
    }
    for (const int32_t id : input.ids) {
      if (id >= 0 && id < vocab_size_) continue;
      return invalid_argument(fmt::format("input {}: token id {} is outside the vocabulary of {}", i, id, vocab_size_));
    }
  }
  return {};
}

Result<std::unique_ptr<EncoderQueue::Ticket>> EncoderQueue::submit(std::vector<Encoding> inputs,
                                                                   std::function<void()> on_done) {
  if (task_ == EncoderTask::kYesNo) return unsupported("this model reranks and has no embeddings");
  if (inputs.empty()) return invalid_argument("no input");
  QUERN_TRY(check(inputs));
  auto job = std::make_shared<Job>();
  job->answer.outputs.resize(inputs.size());
  for (const Encoding& input : inputs) job->answer.prompt_tokens += std::ssize(input.ids);
  job->inputs = std::move(inputs);
  job->on_done = std::move(on_done);
  return enqueue(std::move(job));
}

Result<std::unique_ptr<EncoderQueue::Ticket>> EncoderQueue::submit_rerank(std::string query,
                                                                          std::vector<std::string> documents,
                                                                          std::function<void()> on_done) {
  QUERN_CHECK(task_ == EncoderTask::kYesNo);
  if (documents.empty()) return invalid_argument("no document");
  auto job = std::make_shared<Job>();
  job->query = std::move(query);
  job->documents = std::move(documents);
  job->on_done = std::move(on_done);
  return enqueue(std::move(job));
}

Result<std::unique_ptr<EncoderQueue::Ticket>> EncoderQueue::enqueue(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    drop_cancelled();
    if (stats_.inputs_waiting + job->size() > options_.inputs_waiting_max) {
      return make_error(ErrorCode::kResourceExhausted, fmt::format("the queue is full: {} inputs wait, the limit is {}",
                                                                   stats_.inputs_waiting, options_.inputs_waiting_max));
    }
    stats_.inputs_waiting += job->size();
    jobs_.push_back(job);
  }
  work_.notify_one();
  return std::make_unique<JobTicket>(*this, std::move(job));
}

// Under mutex_.
void EncoderQueue::drop_cancelled() {
  std::erase_if(jobs_, [this](const std::shared_ptr<Job>& job) {
    if (!job->cancelled.load()) return false;
    stats_.inputs_waiting -= job->size() - job->num_begun;
    return true;
  });
}

void EncoderQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    drop_cancelled();
    if (stopping_) break;
    if (jobs_.empty()) continue;
    if (task_ != EncoderTask::kYesNo) {
      run_batch(lock);
      continue;
    }
    const std::shared_ptr<Job> job = jobs_.front();
    jobs_.pop_front();
    job->num_begun = job->size();
    lock.unlock();
    run_whole(*job);
    lock.lock();
    stats_.inputs_waiting -= job->size();
    stats_.inputs_total += job->size();
    ++stats_.batches_total;
    finish(job, job->take_answer());
  }
  const Error error{ErrorCode::kUnavailable, "the server is shutting down"};
  for (const auto& job : std::exchange(jobs_, {})) finish(job, std::unexpected(error));
}

void EncoderQueue::run_whole(Job& job) {
  auto scores = yes_no_->rerank(job.query, job.documents);
  if (!scores) {
    job.error = scores.error();
    return;
  }
  job.answer.prompt_tokens = scores->prompt_tokens;
  for (const float score : scores->scores) job.answer.outputs.push_back({.scores = {score}});
}

// One forward over inputs of all waiting jobs, one of each in turn, up to the token budget.
void EncoderQueue::run_batch(std::unique_lock<std::mutex>& lock) {
  struct Place {
    std::shared_ptr<Job> job;
    size_t index;
  };
  std::vector<Place> places;
  std::vector<EncoderInput> inputs;
  int64_t tokens = 0;
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& job : jobs_) {
      if (job->num_begun == job->inputs.size()) continue;
      const Encoding& input = job->inputs[job->num_begun];
      if (!inputs.empty() && tokens + std::ssize(input.ids) > options_.batch_tokens_max) continue;
      tokens += std::ssize(input.ids);
      inputs.push_back({input.ids, input.type_ids});
      places.push_back({job, job->num_begun++});
      grew = true;
    }
  }
  lock.unlock();
  auto outputs = service_->forward(inputs);
  lock.lock();
  stats_.inputs_waiting -= inputs.size();
  stats_.inputs_total += inputs.size();
  stats_.tokens_total += static_cast<uint64_t>(tokens);
  ++stats_.batches_total;
  for (size_t i = 0; i < places.size(); ++i) {
    Job& job = *places[i].job;
    if (outputs) {
      job.answer.outputs[places[i].index] = std::move((*outputs)[i]);
    } else {
      job.error = outputs.error();
    }
  }
  std::deque<std::shared_ptr<Job>> done;
  std::erase_if(jobs_, [&](const std::shared_ptr<Job>& job) {
    const bool complete = job->error || job->num_begun == job->inputs.size();
    if (complete) {
      stats_.inputs_waiting -= job->inputs.size() - job->num_begun;
      done.push_back(job);
    }
    return complete;
  });
  // Whoever came first goes last in the next round: no job is always the first to fill the budget.
  if (jobs_.size() > 1) std::rotate(jobs_.begin(), jobs_.begin() + 1, jobs_.end());
  for (const auto& job : done) {
    finish(job, job->take_answer());
  }
}

// Under mutex_; the callback only wakes somebody.
void EncoderQueue::finish(const std::shared_ptr<Job>& job, Answer answer) {
  job->result = std::move(answer);
  if (!job->cancelled.load() && job->on_done) job->on_done();
}

EncoderQueueStats EncoderQueue::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace quern
