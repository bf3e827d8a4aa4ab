// Guesses save steps and change nothing else.
#include "engine/core_world.h"

namespace quern::testing {
namespace {

// Answers of all requests by a model that says `tune`, and what they took.
std::vector<Answers> run_all(const WorldOptions& options, const fake::Script& tune,
                             const std::vector<Request>& requests, EngineStats& stats, int64_t& steps) {
  World world(options);
  world.model().script = tune;
  std::vector<int64_t> ids;
  for (const Request& request : requests) ids.push_back(world.submit(request));
  world.run();
  stats = world.core().stats();
  steps = world.model().steps;
  std::vector<Answers> answers;
  for (const int64_t id : ids) answers.push_back(world.answers(id));
  return answers;
}

TEST(EngineCore, SpeculationChangesNothingButTheSteps) {
  // A text that comes back to itself, and sometimes does not.
  const auto tune = [](std::span<const int32_t> context) {
    const auto place = static_cast<int32_t>(context.size()) % 12;
    return context.size() % 37 == 0 ? 60 : 10 + place * place % 29;
  };
  std::vector<Request> requests = mixed_requests();
  for (Request& request : requests) {
    request.stop.clear();
    request.max_tokens += 40;
  }
  requests[3].sampling = {.temperature = 0.7f, .top_p = 0.9f, .mirostat = 2, .seed = 8};
  requests[5].sampling = {.temperature = 0.7f, .dry_multiplier = 0.5f, .seed = 8};
  requests[7].prediction_ids = prompt(40, 7);
  const auto run = [&](const WorldOptions& options, EngineStats& stats, int64_t& steps) {
    return run_all(options, tune, requests, stats, steps);
  };
  EngineStats plain_stats, stats;
  int64_t plain_steps = 0, steps = 0;
  const auto plain = run({}, plain_stats, plain_steps);
  EXPECT_EQ(plain_stats.drafts_total, 0u);
  const WorldOptions settings[] = {
      {.speculation = Speculation::kNgram},
      {.speculation = Speculation::kSuffix},
      {.budget = 9, .max_num_seqs = 3, .speculation = Speculation::kSuffix},
      {.num_blocks = 16, .speculation = Speculation::kNgram},
      {.enable_prefix_caching = false, .speculation = Speculation::kNgram},
      {.speculation = Speculation::kNgram, .spare_rows = 1},
  };
  for (const WorldOptions& options : settings) {
    EXPECT_EQ(run(options, stats, steps), plain);
    EXPECT_GT(stats.accepted_draft_tokens_total, 20u);
    EXPECT_LE(stats.accepted_draft_tokens_total, stats.draft_tokens_total);
  }
  run(settings[0], stats, steps);
  EXPECT_LT(steps, plain_steps);
  run({.speculation = Speculation::kNgram, .spare_rows = 0}, stats, steps);
  EXPECT_EQ(stats.drafts_total, 0u) << "no logits rows, no guesses";
}

TEST(EngineCore, ADraftModelChangesNothingButTheSteps) {
  const auto tune = [](std::span<const int32_t> context) { return 5 + static_cast<int32_t>(context.size() * 7 % 50); };
  const auto sloppy = [&](std::span<const int32_t> context) { return context.size() % 5 == 0 ? 60 : tune(context); };
  std::vector<Request> requests = mixed_requests();
  for (Request& request : requests) request.stop.clear();
  const auto run = [&](const WorldOptions& options, EngineStats& stats, int64_t& steps) {
    return run_all(options, tune, requests, stats, steps);
  };
  EngineStats stats;
  int64_t plain_steps = 0, steps = 0;
  const auto plain = run({}, stats, plain_steps);
  WorldOptions options{.speculation = Speculation::kDraft};
  options.draft = [&](fake::FakeModel& model) { model.script = sloppy; };
  EXPECT_EQ(run(options, stats, steps), plain);
  EXPECT_GT(stats.accepted_draft_tokens_total, 50u);
  EXPECT_LT(stats.accepted_draft_tokens_total, stats.draft_tokens_total);
  EXPECT_LT(steps, plain_steps);
  options.draft = [&](fake::FakeModel& model) { model.fail = true; };
  EXPECT_EQ(run(options, stats, steps), plain) << "a draft model that fails costs guesses only";
}

TEST(EngineCore, CopyingTextTakesFewSteps) {
  World world({.speculation = Speculation::kNgram});
  const std::vector<int32_t> text = prompt(100, 3);
  world.model().script = [&](std::span<const int32_t> context) { return text[context.size() % text.size()]; };
  Request request{.prompt_ids = text, .sampling = {.temperature = 0}, .max_tokens = 90, .ignore_eos = true};
  const Answer answer = world.only(request);
  EXPECT_TRUE(std::equal(answer.ids.begin(), answer.ids.end(), text.begin()));
  EXPECT_LT(world.model().steps, 20);
  EXPECT_EQ(answer.finish.accepted_draft_tokens,
            static_cast<int32_t>(world.core().stats().accepted_draft_tokens_total));
  EXPECT_GT(answer.finish.accepted_draft_tokens, 70);
  request.speculation = "off";
  World plain({.speculation = Speculation::kNgram});
  plain.model().script = world.model().script;
  EXPECT_EQ(plain.only(request), answer);
  EXPECT_GE(plain.model().steps, 90);
}

}  // namespace
}  // namespace quern::testing
