#include "server/tools/tool_prompt.h"

#include <string>

namespace quern::tools {
namespace {

std::string description(const Json& tools) {
  std::string text = "You can call these functions:\n";
  for (const Json& tool : tools) text += dump_json(tool["function"]) + "\n";
  text +=
      "To call one, answer with nothing but JSON of this form: {\"name\": \"<function>\", \"arguments\": "
      "{<arguments>}}. "
      "Answer in words when no function is needed.";
  return text;
}

std::string text_of(const Json& message) {
  return message.contains("content") && message["content"].is_string() ? message["content"].get<std::string>() : "";
}

void flatten_calls(Json& message) {
  std::string text = text_of(message);
  for (const Json& call : message["tool_calls"]) {
    const Json& function = call["function"];
    if (!text.empty()) text += "\n";
    text += dump_json({{"name", function["name"]}, {"arguments", function["arguments"]}});
  }
  message["content"] = std::move(text);
  message.erase("tool_calls");
}

}  // namespace

void describe_tools(Json& messages, const Json& tools) {
  for (Json& message : messages) {
    if (message.contains("tool_calls")) flatten_calls(message);
    if (message["role"] == "tool" || message["role"] == "function") {
      message["content"] = "The function answered: " + text_of(message);
      message["role"] = "user";
    }
  }
  if (tools.is_null()) return;
  if (!messages.empty() && messages.front()["role"] == "system") {
    messages.front()["content"] = text_of(messages.front()) + "\n\n" + description(tools);
  } else {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", description(tools)}});
  }
}

}  // namespace quern::tools
