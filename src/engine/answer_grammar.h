// The grammar of one answer on its way. The mask of the next token is made by a worker while the forward pass runs;
// the step waits for it only when sampling begins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "quern/status.h"
#include "text/grammar.h"

namespace quern {

// One thread that makes masks in the order in which they are asked for.
class GrammarWorker {
 public:
  GrammarWorker() : thread_([this] { run(); }) {}
  ~GrammarWorker();

 private:
  friend class AnswerGrammar;
  // Of one answer. Either the worker has it (in the queue, or in its hands) or the answer does.
  struct Task {
    std::shared_ptr<const CompiledGrammar> grammar;
    std::unique_ptr<GrammarMatcher> matcher;  // made by the first run: copying a large grammar takes its time
    std::vector<uint32_t> mask;
    Status status;
    bool done = false;  // guarded by mutex_
  };
  void push(std::shared_ptr<Task> task);
  void wait(const Task& task);
  void run();

  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::deque<std::shared_ptr<Task>> tasks_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::thread thread_;                       // last: it uses all of the above
};

// Not thread-safe: the engine's thread owns it. `worker` must outlive it.
class AnswerGrammar {
 public:
  AnswerGrammar(GrammarWorker& worker, std::shared_ptr<const CompiledGrammar> grammar);

  // Logits of tokens that may not come next become -inf.
  Status apply(std::span<float> logits);
  // The token that was drawn. true: the text is complete, nothing may follow. Else the next mask is on its way.
  Result<bool> accept(int32_t id);
  // How many of the tokens, one after the other, may come next. Where the grammar fails, none: apply() says so then.
  size_t count_allowed(std::span<const int32_t> ids);
  // At the same place of the same grammar, with a state of its own.
  Result<std::unique_ptr<AnswerGrammar>> fork();

 private:
  GrammarMatcher& matcher();  // waits for the worker

  GrammarWorker* worker_;
  std::shared_ptr<GrammarWorker::Task> task_;
};

}  // namespace quern
