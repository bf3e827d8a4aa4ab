#include "server/openai/tool_fields.h"

#include "base/status.h"

namespace quern::openai {
namespace {

ApiResult<void> read_choice(const Json& choice, ToolFields& result) {
  const auto word = read_choice_word(choice, result);
  if (!word) return std::unexpected(word.error());
  if (*word) return {};
  if (result.tools.empty()) return bad_field("tool_choice", "tool_choice: there are no tools");
  if (!choice.is_object() || choice.value("type", Json()) != "function" || !choice.contains("function") ||
      !choice["function"].is_object()) {
    return bad_field("tool_choice",
                     R"(tool_choice: must be none, auto, required or {"type":"function","function":{"name":…}})");
  }
  return require_named(result, choice["function"].value("name", Json()), "tool_choice");
}

}  // namespace

ToolFields read_tools(Fields& fields) {
  ToolFields result;
  result.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* list = fields.array("tools");
  const Json* choice = fields.any("tool_choice");
  ApiResult<void> read;
  if (list != nullptr) read = add_tools(result, *list);
  if (read && choice != nullptr) read = read_choice(*choice, result);
  if (!read) fields.fault(read.error().param, read.error().message);
  return result;
}

ApiResult<void> normalize_assistant(Json& message, const std::string& param) {
  // The template's room gives each of these names to what one of them brings.
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (message.contains(name) && !message[name].is_string()) message.erase(name);
  }
  return normalize_calls(message, param);
}

}  // namespace quern::openai
