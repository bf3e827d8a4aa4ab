#include "server/foreign/chat_body.h"

#include "base/status.h"

namespace quern::foreign {
namespace {

// OpenAI writes arguments as text.
void write_arguments(Json& messages) {
  for (Json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (Json& call : *calls) {
      Json& arguments = call["function"]["arguments"];
      if (!arguments.is_string()) arguments = dump_json(arguments);
    }
    if (message["content"] == "") message["content"] = nullptr;
  }
}

void add_schema(Json& body, const GrammarSpec& grammar) {
  if (grammar.kind == GrammarKind::kJsonObject) {
    body["response_format"] = {{"type", "json_object"}};
    return;
  }
  const auto schema = parse_json(grammar.text, "schema");  // dump_json() wrote it
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "answer"}, {"schema", schema ? *schema : Json::object()}, {"strict", true}}}};
}

}  // namespace

ApiResult<Json> chat_body(const Asked& asked, ChatBody chat) {
  const bool is_remote = asked.engine == "openai";
  write_arguments(chat.messages);
  Json body = {{"model", asked.worker_name}, {"messages", std::move(chat.messages)}};
  if (chat.tools.is_array() && !chat.tools.empty()) {
    // vLLM holds a call that must be made to its schema only where the tool says so.
    const bool is_forced = chat.tool_choice == "required" || chat.tool_choice.is_object();
    if (is_forced && asked.engine == "vllm") {
      for (Json& tool : chat.tools) tool["function"]["strict"] = true;
    }
    body["tools"] = std::move(chat.tools);
    if (!chat.tool_choice.is_null() && chat.tool_choice != "none") body["tool_choice"] = std::move(chat.tool_choice);
    if (!chat.parallel_calls) body["parallel_tool_calls"] = false;
  }
  if (chat.grammar) add_schema(body, *chat.grammar);
  if (const auto effort = chat.template_kwargs.find("reasoning_effort"); effort != chat.template_kwargs.end()) {
    body["reasoning_effort"] = *effort;
  }
  // A remote server may refuse what it does not know, and has no field for it.
  if (!is_remote && !chat.template_kwargs.empty()) body["chat_template_kwargs"] = chat.template_kwargs;
  if (chat.thinking_budget && asked.engine == "vllm") body["thinking_token_budget"] = *chat.thinking_budget;
  if (chat.thinking_budget && asked.engine == "llama.cpp") body["thinking_budget_tokens"] = *chat.thinking_budget;
  if (chat.continue_final_message) {
    if (is_remote) {
      return bad_field("messages", "messages: engine openai cannot go on from a last turn of the assistant");
    }
    body["continue_final_message"] = true;
    body["add_generation_prompt"] = false;
  }
  body["stream"] = chat.stream;
  if (chat.stream) body["stream_options"] = {{"include_usage", true}};
  return body;
}

ApiResult<void> set_extra(Json& body, const Asked& asked, std::string_view name, const Json& value,
                          const std::string& param) {
  const bool is_llama = asked.engine == "llama.cpp";
  if (asked.engine == "openai" || (name == "typical_p" && !is_llama)) {
    return bad_field(param, fmt::format("{}: engine {} has nothing like it", param, asked.engine));
  }
  body[std::string(is_llama && name == "repetition_penalty" ? "repeat_penalty" : name)] = value;
  return {};
}

ApiError unfinished() {
  return {.status = 502, .message = "the worker of the model broke off", .type = "worker_error", .code = "worker_died"};
}

}  // namespace quern::foreign
