#include "server/chat_plan.h"

#include <algorithm>
#include <span>

#include "base/status.h"
#include "server/tools/answer_frame.h"
#include "server/tools/tool_prompt.h"

namespace quern {
namespace {

using tools::ToolChoice;
using tools::ToolFormat;

// Most templates take the arguments of earlier calls as objects, some as text.
void arguments_to_text(Json& messages) {
  for (Json& message : messages) {
    if (!message.contains("tool_calls")) continue;
    for (Json& call : message["tool_calls"]) {
      Json& arguments = call["function"]["arguments"];
      if (!arguments.is_string()) arguments = dump_json(arguments);
    }
  }
}

ApiResult<std::vector<int32_t>> encode(const ServedModel& model, const TemplateInput& input,
                                       std::string_view prompt_field) {
  const int32_t tokens_max = model.max_model_len();
  auto ids = model.text->encode_chat(input, tokens_max);
  if (ids) return std::move(*ids);
  TemplateInput other = input;
  arguments_to_text(other.messages);
  if (other.messages != input.messages) {
    if (auto again = model.text->encode_chat(std::move(other), tokens_max)) return std::move(*again);
  }
  return std::unexpected(prompt_error(ids.error(), prompt_field));
}

// The last words of a prompt, marks included.
std::string tail_of(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  constexpr size_t kTailTokens = 16;
  return tokenizer.decode(ids.last(std::min(ids.size(), kTailTokens)), false).value_or("");
}

bool ends_with_mark(std::string_view text, std::string_view mark) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return !mark.empty() && end != std::string_view::npos && text.substr(0, end + 1).ends_with(mark);
}

ApiResult<std::vector<int32_t>> mark_ids(const ServedModel& model, const std::string& mark) {
  auto encoding = model.text->tokenizer().encode(mark, {.add_special = false, .parse_special = true});
  if (!encoding) return std::unexpected(to_api_error(encoding.error()));
  return std::move(encoding->ids);
}

ApiResult<void> plan_thinking(const ServedModel& model, int32_t budget, const std::string& param, ChatPlan& plan) {
  if (plan.reasoning.close.empty()) {
    return bad_field(param, param + ": the reasoning of this model cannot be limited");
  }
  auto start = mark_ids(model, plan.reasoning.open), end = mark_ids(model, plan.reasoning.close);
  if (!start) return std::unexpected(start.error());
  if (!end) return std::unexpected(end.error());
  plan.thinking = {.start_ids = std::move(*start),
                   .end_ids = std::move(*end),
                   .open_in_prompt = plan.open_in_prompt,
                   .budget = budget};
  return {};
}

}  // namespace

void ChatPlanInput::set_tools(ToolList list) {
  prompt.tools = std::move(list.shown);
  tools = std::move(list.tools);
  tool_choice = list.choice;
  parallel_calls = list.parallel;
}

std::unique_ptr<tools::OutputParser> ChatPlan::make_parser() const {
  return tools::make_reasoning_parser(reasoning, open_in_prompt, tools::make_tool_parser(format, tool_names));
}

ApiResult<ChatPlan> plan_chat(const ServedModel& model, ChatPlanInput input) {
  const tools::OutputFormat& output = model.output;
  const Tokenizer& tokenizer = model.text->tokenizer();
  const bool forced = input.tool_choice == ToolChoice::kRequired;
  ChatPlan plan;
  if (!output.tools_in_template) {
    tools::describe_tools(input.prompt.messages, input.prompt.tools);
    input.prompt.tools = nullptr;
  }
  auto ids = encode(model, input.prompt, input.prompt_field);
  if (!ids) return std::unexpected(ids.error());
  plan.prompt_ids = std::move(*ids);
  const std::string tail = tail_of(tokenizer, plan.prompt_ids);

  const bool with_tools = input.tool_choice != ToolChoice::kNone;
  plan.reasoning = output.reasoning;
  plan.open_in_prompt = ends_with_mark(tail, output.reasoning.open);
  // A template that is told not to think writes the closed reasoning itself.
  if (ends_with_mark(tail, output.reasoning.close)) plan.reasoning = {};
  if (output.tools == ToolFormat::kHarmony) {
    plan.format = ToolFormat::kHarmony;
  } else if (with_tools) {
    plan.format = forced ? tools::forced_format(output.tools) : output.tools;
  }
  plan.short_call_ids = plan.format == ToolFormat::kMistral;
  plan.needs_special_tokens = tools::has_special_marks(tokenizer, output, with_tools);
  for (const tools::Tool& tool : input.tools) plan.tool_names.push_back(tool.name);

  if (forced) {
    if (input.grammar) {
      return bad_field(input.grammar_param,
                       input.grammar_param + ": not together with a tool_choice that asks for a call");
    }
    auto grammar = tools::tool_grammar(tokenizer, output, input.tools, input.parallel_calls);
    if (!grammar) return bad_field("tools", "tools: " + grammar.error().message);
    plan.grammar = std::move(*grammar);
    plan.grammar_param = "tools";
  } else if (input.grammar) {
    plan.grammar = std::move(input.grammar);
    plan.grammar_param = input.grammar_param;
  }
  if (plan.grammar && !plan.reasoning.close.empty()) {
    plan.grammar->frame = tools::reasoning_frame(tokenizer, output, plan.open_in_prompt);
  } else if (plan.grammar && plan.format == ToolFormat::kHarmony) {
    plan.grammar->frame = tools::reasoning_frame(tokenizer, output, false, forced);
  }
  if (input.thinking_budget) {
    const auto planned = plan_thinking(model, *input.thinking_budget, input.thinking_param, plan);
    if (!planned) {
      return std::unexpected(planned.error());
    }
  }
  return plan;
}

}  // namespace quern
