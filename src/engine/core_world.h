// For tests of the core: a core over the fake model, and the requests given to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "engine/core.h"
#include "engine/fake_model.h"
#include "engine/fake_tokenizer.h"

namespace quern::testing {

inline constexpr int32_t kVocab = 64;

inline std::vector<std::string> pieces() {
  std::vector<std::string> list(kVocab);
  for (int32_t i = 0; i < kVocab; ++i) list[i] = "<" + std::to_string(i) + ">";
  return list;
}

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::string text;
  FinishEvent finish;
  bool operator==(const Answer& other) const {
    return ids == other.ids && logprobs == other.logprobs && text == other.text &&
           finish.reason == other.finish.reason && finish.stop_text == other.finish.stop_text &&
           finish.prompt_tokens == other.finish.prompt_tokens && finish.output_tokens == other.finish.output_tokens;
  }
};
using Answers = std::map<int32_t, Answer>;

struct WorldOptions {
  int32_t budget = 64;
  int32_t max_num_seqs = 8;
  int32_t num_blocks = 64;
  bool enable_prefix_caching = true;
  std::vector<int32_t> windows;  // of the model's layers; empty: one that sees everything
  bool one_group = false;        // of KV layers, whatever their windows
  Speculation speculation = Speculation::kOff;
  int32_t spare_rows = 16;
  DiskTier* disk = nullptr;
  std::function<void(fake::FakeModel&)> draft;  // makes a draft model and shapes it
};

// A core over the fake model, and the requests given to it.
class World {
 public:
  explicit World(const WorldOptions& options = {}, std::vector<std::string> tokens = pieces())
      : fake_(
            fake::make_runner({.max_num_batched_tokens = options.budget,
                               .max_logits_rows = std::min(options.budget, options.max_num_seqs + options.spare_rows)},
                              kVocab)),
        tokenizer_(std::move(tokens)),
        limits_{.vocab_size = kVocab, .speculation = options.speculation} {
    if (!options.windows.empty()) fake_.model->set_windows(options.windows);
    KvLayout layout = options.one_group ? fake_.runner->one_kv_group() : fake_.runner->window_kv_groups();
    groups_.windows = layout.windows;
    limits_.max_model_len =
        static_cast<int32_t>(tokens_that_fit(groups_, options.num_blocks, options.budget, /*tokens_max=*/256));
    EXPECT_TRUE(fake_.runner->allocate_kv(options.num_blocks, std::move(layout)));
    if (options.draft) {
      auto small = fake::make_runner({.max_num_batched_tokens = 32, .max_logits_rows = 1}, kVocab);
      options.draft(*small.model);
      draft_ = std::move(*DraftModel::create(std::move(small.runner), kVocab, 400));
      limits_.has_draft_model = true;
    }
    const CoreOptions core_options{
        .planner = {.max_num_batched_tokens = options.budget, .max_num_seqs = options.max_num_seqs},
        .enable_prefix_caching = options.enable_prefix_caching,
        .draft = draft_.get(),
        .disk = options.disk,
        .disk_patience = 1e9,  // the fake model computes faster than any disk reads
        .prefix_root = options.disk != nullptr ? options.disk->root() : PrefixKey{}};
    core_ = std::move(*EngineCore::create(*fake_.runner, &tokenizer_, core_options));
  }

  int64_t submit(Request request) {
    request.logprobs = true;
    auto valid = validate_request(std::move(request), limits_, {2});
    EXPECT_TRUE(valid) << valid.error().message;
    requests_.push_back(*valid);
    core_->submit(static_cast<int64_t>(requests_.size()) - 1, *valid);
    return static_cast<int64_t>(requests_.size()) - 1;
  }
  void step() {
    core_->step();
    core_->check();
  }
  void run() {
    for (int steps = 0; !core_->idle(); ++steps) {
      ASSERT_LT(steps, 20000);
      step();
    }
  }
  Answers answers(int64_t request) {
    Answers result;
    EventQueue& events = requests_[request]->events;
    while (auto event = events.try_next()) {
      if (event->prompt) {
        prompt_events_.push_back(*event->prompt);
      } else if (event->token) {
        Answer& answer = result[event->token->index];
        answer.ids.push_back(event->token->id);
        answer.logprobs.push_back(event->token->logprob);
        answer.text += event->token->text;
      } else {
        Answer& answer = result[event->finish->index];
        answer.text += event->finish->text;
        answer.finish = *event->finish;
      }
    }
    EXPECT_TRUE(events.finished());
    return result;
  }
  Answer only(Request request) {
    const int64_t id = submit(std::move(request));
    run();
    return answers(id).at(0);
  }

  // Those of the answers read last.
  std::vector<PromptEvent> take_prompt_events() { return std::exchange(prompt_events_, {}); }
  fake::FakeModel& model() { return *fake_.model; }
  fake::FakeDevice& device() { return *fake_.device; }
  EngineCore& core() { return *core_; }
  const BlockGroups& groups() const { return groups_; }
  int32_t live_blocks() const {
    const EngineStats stats = core_->stats();
    return stats.kv_blocks_total - stats.kv_blocks_free - stats.kv_blocks_cached;
  }

 private:
  fake::FakeRunner fake_;
  fake::FakeTokenizer tokenizer_;
  RequestLimits limits_;
  BlockGroups groups_;
  std::unique_ptr<DraftModel> draft_;
  std::unique_ptr<EngineCore> core_;
  std::vector<std::shared_ptr<const ValidRequest>> requests_;
  std::vector<PromptEvent> prompt_events_;
};

inline std::vector<int32_t> prompt(int32_t length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(length);
  for (int32_t& id : ids) id = 3 + static_cast<int32_t>(random() % (kVocab - 3));
  return ids;
}

// Twelve requests of many shapes, sampled with seeds.
inline std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    Request request;
    request.prompt_ids = prompt(1 + static_cast<int32_t>(i * 11 % 70), i / 2);  // pairs begin with the same tokens
    request.max_tokens = 3 + static_cast<int32_t>(i * 7 % 40);
    request.sampling.seed = 100 + i;
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 1.0f;
    request.sampling.repetition_penalty = i % 4 == 0 ? 1.2f : 1.0f;
    request.n = 1 + static_cast<int32_t>(i % 3);
    request.ignore_eos = i % 2 == 0;
    request.stop = {"7><", "12"};
    requests.push_back(request);
  }
  return requests;
}

}  // namespace quern::testing
