// Counts of tokens in every dialect's answers, cut at every place, and what a client must not see of them.
#include "server/door/usage_meter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace quern::door {
namespace {

int64_t tokens_of(std::string_view answer, size_t cut = std::string_view::npos, bool is_whole = true) {
  UsageMeter meter;
  meter.see(answer.substr(0, cut));
  if (cut < answer.size()) meter.see(answer.substr(cut));
  return meter.tokens(is_whole, 1000);
}

struct Told {
  std::string_view answer;
  int64_t tokens;
};

constexpr Told kTold[] = {
    {R"({"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],"usage":{"prompt_tokens":8,)"
     R"("completion_tokens":2,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}})",
     10},
    {R"({ "data": [], "usage" : { "prompt_tokens": 8, "total_tokens": 8 } })", 8},
    {R"({"content":[{"type":"tool_use","input":{"usage":{"input_tokens":0,"output_tokens":0}}}],"usage":{)"
     R"("input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":0,"output_tokens":7}})",
     15},
    {R"({"output":[],"usage":{"input_tokens":3,"output_tokens":7,"total_tokens":10}})", 10},
    {R"({"message":{"content":"a"},"done":true,"prompt_eval_count":6,"eval_count":5,"eval_duration":900})", 11},
    {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n"
     "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":5,\"total_tokens\":9}}\n\n"
     "data: [DONE]\n\n",
     9},
    {"event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}}\n\n"
     "event: content_block_delta\ndata: {\"delta\":{\"text\":\"a\"}}\n\n"
     "event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":8}}\n\n",
     12},
    {"{\"response\":\"a\",\"done\":false}\n{\"response\":\"\",\"done\":true,\"prompt_eval_count\":2,\"eval_count\":3}"
     "\n",
     5},
};

TEST(UsageMeter, EveryDialectAtEveryCut) {
  for (const auto& [answer, tokens] : kTold) {
    for (size_t cut = 0; cut <= answer.size(); ++cut) EXPECT_EQ(tokens_of(answer, cut), tokens) << answer << cut;
    UsageMeter meter;
    for (const char c : answer) meter.see({&c, 1});
    EXPECT_EQ(meter.tokens(true, 1000), tokens) << answer;
  }
}

TEST(UsageMeter, WithoutAWordEventsCount) {
  const std::string events = "data: {\"choices\":[{}]}\n\ndata: {\"choices\":[{}]}\n\n";
  for (size_t cut = 0; cut <= events.size(); ++cut) EXPECT_LE(tokens_of(events, cut), 1002);
  EXPECT_EQ(tokens_of(events), 1002);
  EXPECT_EQ(tokens_of("{\"response\":\"a\"}\n{\"response\":\"b\"}\n"), 1002);
  const std::string_view begun = "event: message_start\ndata: {\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}\n\n";
  EXPECT_EQ(tokens_of(std::string(begun) + events, std::string::npos, false), 4 + 3);
}

TEST(UsageMeter, HostileCountsAreNone) {
  for (const char* answer : {R"({"usage":{"prompt_tokens":-5,"completion_tokens":1e99}})",
                             R"({"usage":{"prompt_tokens":"7"}})", R"({"usage":[7]})", R"({"usage":{"prompt_tokens":)",
                             R"("usage")", R"({"usage":{"prompt_tokens":99999999999999}})",
                             R"({"eval_count":-3,"prompt_eval_count":99999999999999999999999})"}) {
    UsageMeter meter;
    meter.see(answer);
    EXPECT_FALSE(meter.told()) << answer;
  }
}

TEST(UsageMeter, LongAnswersTakeLinearTimeAndNoMemory) {
  UsageMeter meter;
  const std::string open = "\"usage\":{\"a\":{" + std::string(16000, '{');
  const std::string half = std::string(16000, 'x') + "\"usag";
  for (int i = 0; i < 2000; ++i) meter.see(i % 2 == 0 ? open : half);
  EXPECT_FALSE(meter.told());
}

TEST(UsageHider, WhatTheDoorAskedForIsNotSeen) {
  const std::string asked =
      "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"choices\\\":[],\\\"usage\\\":{\"}}],\"usage\":null}\n\n"
      ": comment\n\n"
      "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":4}}\n\n"
      "data: [DONE]\n\n";
  const std::string seen =
      "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"choices\\\":[],\\\"usage\\\":{\"}}]}\n\n"
      ": comment\n\n"
      "data: [DONE]\n\n";
  UsageHider whole;
  EXPECT_EQ(whole.pass(asked), seen);
  UsageHider by_line;
  std::string text;
  for (size_t at = 0; at < asked.size();) {
    const size_t end = asked.find('\n', at) + 1;
    text += by_line.pass(asked.substr(at, end - at));
    at = end;
  }
  EXPECT_EQ(text, seen);
}

TEST(UsageHider, AsksOnlyWhereTheClientDoesNot) {
  EXPECT_EQ(asking_for_usage(""), R"({"include_usage":true})");
  EXPECT_EQ(asking_for_usage("null"), R"({"include_usage":true})");
  EXPECT_EQ(asking_for_usage(R"({"include_usage":false,"x":1})"), R"({"include_usage":true,"x":1})");
  EXPECT_EQ(asking_for_usage(R"({"include_usage":true})"), std::nullopt);
  EXPECT_EQ(asking_for_usage("7"), std::nullopt);
}

}  // namespace
}  // namespace quern::door
