#include "engine/answer_grammar.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/status.h"

namespace quern {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void mask_logits(std::span<const uint32_t> mask, std::span<float> logits) {
  const size_t covered = std::min(mask.size() * 32, logits.size());
  for (size_t begin = 0; begin < covered; begin += 32) {
    const uint32_t word = mask[begin / 32];
    if (word == ~uint32_t{0}) continue;
    const auto some = logits.subspan(begin, std::min<size_t>(32, covered - begin));
    if (word == 0) {
      std::ranges::fill(some, kNever);
      continue;
    }
    for (size_t i = 0; i < some.size(); ++i) {
      if (((word >> i) & 1) == 0) some[i] = kNever;
    }
  }
  // A model may have more logits than its tokenizer has tokens.
  std::ranges::fill(logits.subspan(covered), kNever);
}

}  // namespace

GrammarWorker::~GrammarWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void GrammarWorker::push(std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(mutex_);
    task->done = false;
    tasks_.push_back(std::move(task));
  }
  wanted_.notify_one();
}

void GrammarWorker::wait(const Task& task) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return task.done; });
}

void GrammarWorker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Task> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (!task->matcher) {
      auto matcher = task->grammar->matcher();
      if (matcher) {
        task->matcher = std::move(*matcher);
      } else {
        task->status = std::unexpected(matcher.error());
      }
    }
    if (task->matcher) task->status = task->matcher->mask(task->mask);
    lock.lock();
    task->done = true;
    done_.notify_all();
  }
}

AnswerGrammar::AnswerGrammar(GrammarWorker& worker, std::shared_ptr<const CompiledGrammar> grammar)
    : worker_(&worker), task_(std::make_shared<GrammarWorker::Task>()) {
  task_->mask.resize(grammar->mask_words());
  task_->grammar = std::move(grammar);
  worker_->push(task_);
}

GrammarMatcher& AnswerGrammar::matcher() {
  QUERN_CHECK(task_->matcher != nullptr);
  return *task_->matcher;
}

Status AnswerGrammar::apply(std::span<float> logits) {
  worker_->wait(*task_);
  QUERN_TRY(task_->status);
  mask_logits(task_->mask, logits);
  return {};
}

Result<bool> AnswerGrammar::accept(int32_t id) {
  worker_->wait(*task_);
  QUERN_TRY(task_->status);
  QUERN_ASSIGN(const bool accepted, matcher().accept(id));
  if (!accepted) return make_error(ErrorCode::kInternal, fmt::format("token {} is against its own grammar", id));
  if (matcher().is_stopped()) return true;
  worker_->push(task_);
  return false;
}

size_t AnswerGrammar::count_allowed(std::span<const int32_t> ids) {
  worker_->wait(*task_);
  if (!task_->status) return 0;
  const auto allowed = matcher().count_allowed(ids);
  if (allowed) return *allowed;
  task_->status = std::unexpected(allowed.error());
  return 0;
}

Result<std::unique_ptr<AnswerGrammar>> AnswerGrammar::fork() {
  worker_->wait(*task_);
  QUERN_TRY(task_->status);
  auto other = std::make_unique<AnswerGrammar>(*this);
  other->task_ = std::make_shared<GrammarWorker::Task>();
  other->task_->grammar = task_->grammar;
  QUERN_ASSIGN(other->task_->matcher, matcher().copy());
  other->task_->mask = task_->mask;
  other->task_->done = true;
  return other;
}

}  // namespace quern
