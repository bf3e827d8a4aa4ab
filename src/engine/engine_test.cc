// The engine with its thread: what callers of the public door see.
#include "quern/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "engine/engine_factory.h"
#include "engine/fake_model.h"

namespace quern {
namespace {

struct Served {
  fake::FakeModel* model = nullptr;
  std::unique_ptr<Engine> engine;
};

Served serve(EngineOptions options = {}, std::chrono::microseconds step_time = {}) {
  if (options.kv_cache_bytes == 0)
    options.kv_cache_bytes = int64_t{64} * 16 * 128;  // 64 blocks of the fake model's f16
  auto fake = fake::make_runner(*runner_options(options));
  fake.model->step_time = step_time;
  auto engine = create_engine({.runner = std::move(fake.runner), .eos_ids = {2}}, options);
  EXPECT_TRUE(engine) << engine.error().message;
  return {.model = fake.model, .engine = std::move(*engine)};
}

Request endless(std::vector<int32_t> prompt) {
  return {.prompt_ids = std::move(prompt), .ignore_eos = true};
}

std::vector<int32_t> read_all(EventStream& stream) {
  std::vector<int32_t> ids;
  while (auto event = stream.next()) {
    if (event->token) ids.push_back(event->token->id);
  }
  return ids;
}

// Waits until the engine says so; a broken engine fails the test by the runner's time limit.
template <class Condition>
void wait_for(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Engine, AnswersFromManyThreads) {
  Served served = serve();
  Request request{.prompt_ids = {5, 6, 7}, .sampling = {.seed = 9}, .max_tokens = 30, .ignore_eos = true};
  const auto expected = read_all(**served.engine->submit(request));
  EXPECT_EQ(expected.size(), 30u);
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 25; ++j) equal += read_all(**served.engine->submit(request)) == expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 100);
  wait_for([&] { return served.engine->stats().running == 0; });
  EXPECT_EQ(served.engine->stats().generation_tokens_total, 101u * 30);
}

TEST(Engine, RefusalsNameTheField) {
  Served served = serve({.kv_cache_bytes = 4 * 16 * 128});  // 4 blocks: 64 tokens
  EXPECT_EQ(served.engine->max_model_len(), 64);
  EXPECT_EQ(served.engine->vocab_size(), 64);
  const auto refusal = [&](Request request) {
    auto stream = served.engine->submit(std::move(request));
    EXPECT_FALSE(stream);
    if (stream) return std::string();
    EXPECT_EQ(stream.error().code, ErrorCode::kInvalidArgument);
    return stream.error().message.substr(0, stream.error().message.find(':'));
  };
  EXPECT_EQ(refusal({}), "prompt_ids");
  EXPECT_EQ(refusal({.prompt_ids = {64}}), "prompt_ids");
  EXPECT_EQ(refusal({.prompt_ids = {-1}}), "prompt_ids");
  EXPECT_EQ(refusal({.prompt_ids = std::vector<int32_t>(64, 3)}), "prompt_ids");
  EXPECT_EQ(refusal({.prompt_ids = {3}, .max_tokens = -1}), "max_tokens");
  EXPECT_EQ(refusal({.prompt_ids = {3}, .n = 0}), "n");
  EXPECT_EQ(refusal({.prompt_ids = {3}, .n = 129}), "n");
  EXPECT_EQ(refusal({.prompt_ids = {3}, .stop_token_ids = {64}}), "stop_token_ids");
  EXPECT_EQ(refusal({.prompt_ids = {3}, .stop = {std::string(5000, 'x')}}), "stop");
  EXPECT_EQ(refusal({.prompt_ids = {3}, .top_logprobs = 1000}), "top_logprobs");
  EXPECT_NE(refusal({.prompt_ids = {3}, .sampling = {.temperature = -1}}).find("temperature"), std::string::npos);
  auto longest = served.engine->submit({.prompt_ids = std::vector<int32_t>(63, 3), .ignore_eos = true});
  ASSERT_TRUE(longest);
  EXPECT_EQ(read_all(**longest).size(), 1u);
}

TEST(Engine, FullQueueRefuses) {
  Served served = serve({.max_num_seqs = 1, .max_waiting = 1}, std::chrono::milliseconds(1));
  auto first = served.engine->submit(endless({5}));
  auto second = served.engine->submit(endless({6}));
  ASSERT_TRUE(first && second);
  auto third = served.engine->submit(endless({7}));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kResourceExhausted);
  first->reset();
  wait_for([&] { return served.engine->submit(endless({7})).has_value(); });
}

TEST(Engine, CancelAndDestructionStopTheWork) {
  Served served = serve({}, std::chrono::milliseconds(1));
  auto stream = std::move(*served.engine->submit(endless({5})));
  EXPECT_TRUE(stream->next()->token);
  stream->cancel();
  std::optional<FinishEvent> finish;
  while (auto event = stream->next()) finish = event->finish;
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kCancelled);
  EXPECT_TRUE(stream->finished());

  for (int i = 0; i < 50; ++i) {
    auto dropped = std::move(*served.engine->submit(endless({6, i % 60})));
    if (i % 2 == 0) dropped->next();
  }
  wait_for([&] { return served.engine->stats().running + served.engine->stats().waiting == 0; });
  const EngineStats stats = served.engine->stats();
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks_total);
}

TEST(Engine, StreamsOutliveTheEngine) {
  Served served = serve({}, std::chrono::milliseconds(1));
  auto stream = std::move(*served.engine->submit(endless({5})));
  auto late = std::move(*served.engine->submit(endless({6})));
  served.engine.reset();
  std::optional<FinishEvent> finish;
  while (auto event = stream->next()) finish = event->finish;
  EXPECT_EQ(finish->reason, FinishReason::kCancelled);
  late->cancel();
}

TEST(Engine, ReadyCallbackWakesAnEventLoop) {
  Served served = serve();
  std::counting_semaphore<> ready(0);
  auto stream = std::move(*served.engine->submit({.prompt_ids = {5}, .max_tokens = 20, .ignore_eos = true, .n = 2}));
  stream->on_ready([&] { ready.release(); });
  int tokens = 0, finishes = 0;
  while (!stream->finished()) {
    ready.acquire();
    while (auto event = stream->try_next()) {
      tokens += event->token.has_value();
      finishes += event->finish.has_value();
    }
  }
  EXPECT_EQ(tokens, 40);
  EXPECT_EQ(finishes, 2);
}

TEST(Engine, FreshSeedsDifferAndAreReported) {
  Served served = serve();
  const auto run = [&](std::optional<uint64_t> seed, uint64_t& used) {
    auto stream =
        served.engine->submit({.prompt_ids = {5}, .sampling = {.seed = seed}, .max_tokens = 30, .ignore_eos = true});
    std::vector<int32_t> ids;
    while (auto event = (*stream)->next()) {
      if (event->token) ids.push_back(event->token->id);
      if (event->finish) used = event->finish->seed;
    }
    return ids;
  };
  uint64_t seed_a = 0, seed_b = 0, seed_c = 0;
  const auto a = run(std::nullopt, seed_a), b = run(std::nullopt, seed_b);
  EXPECT_NE(seed_a, seed_b);
  EXPECT_NE(a, b);
  EXPECT_EQ(run(seed_a, seed_c), a);
  EXPECT_EQ(seed_c, seed_a);
}

}  // namespace
}  // namespace quern
