// Grammars and thinking budgets through the engine: what may come next, where an answer ends, and that company in the
// batch, forks and preemption change nothing.
#include <gtest/gtest.h>

#include <latch>
#include <regex>

#include "engine/engine_factory.h"
#include "engine/fake_model.h"
#include "engine/fake_tokenizer.h"

namespace quern {
namespace {

constexpr int32_t kVocab = 64;

// Three special tokens, then digits, letters and a few pieces of several characters.
std::vector<std::string> pieces() {
  std::vector<std::string> list = {"<unk>", "<s>", "</s>"};
  for (char c = '0'; c <= '9'; ++c) list.emplace_back(1, c);
  for (char c = 'a'; c <= 'z'; ++c) list.emplace_back(1, c);
  for (const char* piece :
       {"{", "}", "\"", ":", ",", "[", "]", " ", "12", "ab", "<think>", "</think>", "\":", "true", "null", "-", "."}) {
    list.emplace_back(piece);
  }
  list.resize(kVocab);
  return list;
}
int32_t id_of(const std::string& piece) {
  const auto list = pieces();
  return static_cast<int32_t>(std::ranges::find(list, piece) - list.begin());
}

struct ConstrainedEngine {
  fake::FakeModel* model = nullptr;
  std::unique_ptr<Engine> engine;
};

ConstrainedEngine serve_constrained(int64_t num_blocks = 64, int32_t max_num_seqs = 16) {
  EngineOptions options;
  options.kv_cache_bytes = num_blocks * 16 * 128;
  options.max_num_seqs = max_num_seqs;
  auto fake = fake::make_runner(*runner_options(options), kVocab);
  auto engine = create_engine(
      {.runner = std::move(fake.runner), .tokenizer = std::make_shared<fake::FakeTokenizer>(pieces()), .eos_ids = {2}},
      options);
  EXPECT_TRUE(engine) << engine.error().message;
  return {.model = fake.model, .engine = std::move(*engine)};
}

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
  FinishEvent finish;
};
std::vector<Answer> read_answers(EventStream& stream, int32_t n = 1) {
  std::vector<Answer> answers(static_cast<size_t>(n));
  while (auto event = stream.next()) {
    if (event->token) {
      answers[event->token->index].text += event->token->text;
      answers[event->token->index].ids.push_back(event->token->id);
    }
    if (event->finish) {
      answers[event->finish->index].text += event->finish->text;
      answers[event->finish->index].finish = *event->finish;
    }
  }
  return answers;
}

std::shared_ptr<const Grammar> compile(Engine& engine, GrammarKind kind, const std::string& text) {
  auto grammar = engine.compile_grammar({.kind = kind, .text = text, .frame = {}});
  EXPECT_TRUE(grammar) << grammar.error().message;
  return grammar ? *grammar : nullptr;
}

TEST(Constrained, EveryAnswerMatches) {
  ConstrainedEngine served = serve_constrained();
  const std::string pattern = "[a-f]{2,4}(-[0-9]+)?";
  Request request{.prompt_ids = {5, 6, 7}, .sampling = {.seed = 3}, .n = 16};
  request.grammar = compile(*served.engine, GrammarKind::kRegex, pattern);
  int ended = 0;
  for (const Answer& answer : read_answers(**served.engine->submit(request), request.n)) {
    if (answer.finish.reason == FinishReason::kLength) continue;  // digits without end
    ++ended;
    EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
    EXPECT_TRUE(std::regex_match(answer.text, std::regex(pattern))) << answer.text;
  }
  EXPECT_GT(ended, 8);
}

TEST(Constrained, EndsWithTheGrammarAndNotBefore) {
  ConstrainedEngine served = serve_constrained();
  served.model->script = [](std::span<const int32_t>) { return 2; };  // wants to end at once
  Request request{.prompt_ids = {5, 6, 7}, .sampling = {.temperature = 0}};
  request.grammar = compile(*served.engine, GrammarKind::kRegex, "[0-9]{3}");
  Answer answer = read_answers(**served.engine->submit(request)).front();
  EXPECT_EQ(answer.text.size(), 3u) << answer.text;
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  // Where it may end it does, with the end token; and the limit still holds.
  request.grammar = compile(*served.engine, GrammarKind::kRegex, "[0-9]{2}[a-z]*");
  answer = read_answers(**served.engine->submit(request)).front();
  EXPECT_EQ(answer.text.size(), 2u) << answer.text;
  EXPECT_EQ(answer.ids.back(), 2);
  request.max_tokens = 1;
  EXPECT_EQ(read_answers(**served.engine->submit(request)).front().finish.reason, FinishReason::kLength);
  // ignore_eos does not carry an answer over the end of its grammar.
  request.max_tokens = 0;
  request.ignore_eos = true;
  EXPECT_EQ(read_answers(**served.engine->submit(request)).front().finish.reason, FinishReason::kStop);
}

TEST(Constrained, CompanyAndPreemptionChangeNothing) {
  const auto run = [](int64_t num_blocks, int copies) {
    ConstrainedEngine served = serve_constrained(num_blocks);
    const auto grammar = compile(*served.engine, GrammarKind::kRegex, "[a-z]{40}[0-9]{40}");
    std::latch all_here(1);  // the first step waits for the last request, so that they do share the batch
    served.model->script = [&all_here](std::span<const int32_t>) { return all_here.wait(), -1; };
    std::vector<std::unique_ptr<EventStream>> streams;
    for (int i = 0; i < copies; ++i) {
      Request request{.prompt_ids = {5, 6, 7, 8 + i}, .sampling = {.seed = 11}};
      request.grammar = grammar;
      streams.push_back(std::move(*served.engine->submit(request)));
    }
    all_here.count_down();
    std::vector<std::string> texts;
    for (auto& stream : streams) texts.push_back(read_answers(*stream).front().text);
    return std::pair(texts, served.engine->stats().preemptions_total);
  };
  const auto [roomy, none] = run(64, 6);
  const auto [tight, some] = run(12, 6);
  const auto [alone, zero] = run(64, 1);
  EXPECT_EQ(none, 0u);
  EXPECT_GT(some, 0u);
  EXPECT_EQ(roomy, tight);
  EXPECT_EQ(roomy.front(), alone.front());
  EXPECT_TRUE(std::regex_match(roomy.front(), std::regex("[a-z]{40}[0-9]{40}")));
}

TEST(Constrained, LogprobsAreOfTheModelNotOfTheMask) {
  ConstrainedEngine served = serve_constrained();
  Request request{.prompt_ids = {5, 6, 7}, .sampling = {.seed = 3}, .max_tokens = 20};
  request.top_logprobs = kVocab;
  request.grammar = compile(*served.engine, GrammarKind::kRegex, "a{30}");
  const auto stream = std::move(*served.engine->submit(request));
  int tokens = 0;
  while (const auto event = stream->next()) {
    if (!event->token) continue;
    ++tokens;
    EXPECT_LT(event->token->logprob, -1e-3f) << "others were likely too";
    const auto same =
        std::ranges::find(event->token->top_logprobs, event->token->id, &std::pair<int32_t, float>::first);
    ASSERT_NE(same, event->token->top_logprobs.end());
    EXPECT_NEAR(same->second, event->token->logprob, 1e-4);
  }
  EXPECT_GE(tokens, 15);
}

struct Told {
  std::vector<Answer> answers;
  int32_t guessed = 0, right = 0;
};
Told tell(Engine& engine, Request request, const char* speculation) {
  request.speculation = speculation;
  Told told{.answers = read_answers(**engine.submit(request), request.n)};
  for (const Answer& answer : told.answers) {
    told.guessed += answer.finish.draft_tokens;
    told.right += answer.finish.accepted_draft_tokens;
  }
  return told;
}

TEST(Constrained, GuessesChangeNothing) {
  ConstrainedEngine served = serve_constrained();
  for (const char* pattern : {"([ab][0-9]){30}", "(true|null){20}", "[a-z]{3}(-[0-9]{2}){20}[a-z]*"}) {
    Request request{.prompt_ids = {5, 6, 7, 8, 5, 6, 7, 8, 5, 6}, .n = 3};
    request.grammar = compile(*served.engine, GrammarKind::kRegex, pattern);
    request.max_tokens = 90;
    request.thinking = {.end_ids = {id_of("</think>")}, .budget = 1000};
    int32_t right = 0;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      request.sampling = {.temperature = seed == 0 ? 0.0f : 1.0f, .seed = seed};
      const Told plain = tell(*served.engine, request, "off");
      for (const char* method : {"ngram", "suffix"}) {
        const Told guessed = tell(*served.engine, request, method);
        for (size_t i = 0; i < plain.answers.size(); ++i) {
          EXPECT_EQ(guessed.answers[i].ids, plain.answers[i].ids) << pattern << ' ' << method << ' ' << seed;
          EXPECT_EQ(guessed.answers[i].finish.reason, plain.answers[i].finish.reason);
        }
        right += guessed.right;
      }
      EXPECT_EQ(plain.guessed, 0);
    }
    EXPECT_GT(right, 0) << pattern;
  }
}

// The prompt goes on with what the grammar forbids: that is never guessed. What is allowed has no choice, so all the
// guesses that remain come true.
TEST(Constrained, NothingForbiddenIsGuessed) {
  ConstrainedEngine served = serve_constrained();
  Request request{.sampling = {.temperature = 0}};
  for (int i = 0; i < 10; ++i) request.prompt_ids.insert(request.prompt_ids.end(), {id_of("a"), id_of("b")});
  request.grammar = compile(*served.engine, GrammarKind::kRegex, "a{40}");
  const Told told = tell(*served.engine, request, "ngram");
  EXPECT_FALSE(told.answers.front().text.empty());
  EXPECT_EQ(told.answers.front().text.find_first_not_of('a'), std::string::npos);
  EXPECT_GT(told.guessed, 0);
  EXPECT_EQ(told.guessed, told.right);
}

TEST(Constrained, RefusesAnotherEnginesGrammar) {
  ConstrainedEngine one = serve_constrained(), other = serve_constrained();
  Request request{.prompt_ids = {5}};
  request.grammar = compile(*other.engine, GrammarKind::kJsonObject, "");
  const auto stream = one.engine->submit(request);
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(one.engine->compile_grammar({.kind = GrammarKind::kRegex, .text = "(", .frame = {}}));
}

TEST(Constrained, CompilesOnce) {
  ConstrainedEngine served = serve_constrained();
  const auto first = compile(*served.engine, GrammarKind::kRegex, "a+");
  EXPECT_EQ(first, compile(*served.engine, GrammarKind::kRegex, "a+"));
  for (int i = 0; i < 70; ++i) compile(*served.engine, GrammarKind::kRegex, "b{" + std::to_string(i + 1) + "}");
  EXPECT_NE(first, compile(*served.engine, GrammarKind::kRegex, "a+"));
}

TEST(ThinkingBudget, ClosesTheReasoning) {
  ConstrainedEngine served = serve_constrained();
  served.model->script = [](std::span<const int32_t>) { return id_of("a"); };  // thinks for ever
  const int32_t open = id_of("<think>"), close = id_of("</think>");
  Request request{.prompt_ids = {5, 6, open}, .sampling = {.temperature = 0}, .max_tokens = 8};
  request.thinking = {.start_ids = {open}, .end_ids = {close, id_of(" ")}, .open_in_prompt = true, .budget = 3};
  EXPECT_EQ(read_answers(**served.engine->submit(request)).front().text, "aaa</think> aaa");
  request.thinking.budget = 0;
  EXPECT_EQ(read_answers(**served.engine->submit(request)).front().text, "</think> aaaaaa");
  request.thinking.budget = -1;
  EXPECT_EQ(read_answers(**served.engine->submit(request)).front().text, "aaaaaaaa");
  // Opened by the answer itself; a second reasoning has the budget anew.
  request.thinking.budget = 2;
  request.thinking.open_in_prompt = false;
  served.model->script = [&](std::span<const int32_t> context) {
    return context.back() == close || context.size() == 3 ? open : id_of("a");
  };
  request.thinking.end_ids = {close};
  EXPECT_EQ(read_answers(**served.engine->submit(request)).front().text, "<think>aa</think><think>aa</think>");
}

}  // namespace
}  // namespace quern
