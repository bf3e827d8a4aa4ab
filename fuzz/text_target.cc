// tokenizer.json and chat templates. The libraries behind them are Rust and not instrumented: coverage ends at their
// door.
#include "base/check.h"
#include "scratch.h"
#include "targets.h"
#include "text/chat_template.h"
#include "text_run.h"

namespace quern::fuzz {
namespace {

const TemplateInput& conversation() {
  static const TemplateInput input = [] {
    const auto json = parse_json(
        R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Weather in K\u00f6ln?"},
        {"role":"assistant","content":"","reasoning_content":"a tool","tool_calls":[{"id":"abcdefghi","type":"function",
        "function":{"name":"weather","arguments":{"city":"K\u00f6ln","days":2}}}]},
        {"role":"tool","tool_call_id":"abcdefghi","name":"weather","content":"{\"t\": 21.5}"},
        {"role":"assistant","content":"<think>x</think>21.5"},{"role":"user","content":"Thanks"}],
        "tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object",
        "properties":{"city":{"type":"string"},"days":{"type":["integer","null"]}},"required":["city"]}}}],
        "kwargs":{"enable_thinking":true}})",
        "conversation");
    QUERN_CHECK(json.has_value());
    return TemplateInput{.messages = (*json)["messages"],
                         .tools = (*json)["tools"],
                         .documents = nullptr,
                         .kwargs = (*json)["kwargs"],
                         .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                         .now = "2026-03-05T09:07:03"};
  }();
  return input;
}

}  // namespace

void run_tokenizer(std::string_view json) {
  auto tokenizer = Tokenizer::from_file(scratch_file("tokenizer.json", json), Json());
  if (!tokenizer) return check_refusal(tokenizer.error());
  run_text(**tokenizer);
}

void run_template(std::string_view text) {
  const TemplateLimits limits{.fuel_max = 1'000'000, .output_bytes_max = 1u << 20, .recursion_max = 50};
  const auto compiled = ChatTemplate::create(text, limits);
  if (!compiled) return check_refusal(compiled.error());
  const auto output = (*compiled)->render(conversation());
  if (output) QUERN_CHECK(output->text.size() <= limits.output_bytes_max);
}

}  // namespace quern::fuzz
