#include "server/anthropic/turns.h"

#include <optional>

#include "base/status.h"

namespace quern::anthropic {
namespace {

constexpr size_t kMessagesMax = 100'000;

ApiResult<std::string> string_of(const Json& block, const char* name, const std::string& where) {
  const auto value = block.find(name);
  if (value == block.end() || !value->is_string()) {
    return bad_field(where, fmt::format("{}.{}: must be a string", where, name));
  }
  return value->get<std::string>();
}

// A string, or text blocks joined by newlines; other blocks are refused by type.
ApiResult<std::string> text_of(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return bad_field(where, where + ": must be a string or a list of blocks");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}.{}", where, i);
    if (type_of(content[i]) != "text") {
      return bad_field(place,
                       fmt::format("{}: blocks of type \"{}\" are not supported here", place, type_of(content[i])));
    }
    auto part = string_of(content[i], "text", place);
    if (!part) return part;
    if (i > 0) text += '\n';
    text += *part;
  }
  return text;
}

// What a turn's blocks come to, in the terms of templates.
struct Turn {
  std::string text;
  bool any_text = false;
  std::string thinking;               // assistant
  Json tool_calls = Json::array();    // assistant
  Json tool_results = Json::array();  // user: messages of role tool

  void add_text(const std::string& part) {
    if (any_text) text += '\n';
    text += part;
    any_text = true;
  }
};

std::optional<ApiError> add_block(const Json& block, const std::string& role, const std::string& where, Turn& turn) {
  const std::string type = type_of(block);
  if (type == "text") {
    const auto text = string_of(block, "text", where);
    if (!text) return text.error();
    turn.add_text(*text);
    return std::nullopt;
  }
  if (type == "tool_use" && role == "assistant") {
    const auto id = string_of(block, "id", where);
    if (!id) return id.error();
    const auto name = string_of(block, "name", where);
    if (!name) return name.error();
    const Json input = block.value("input", Json::object());
    if (!input.is_object()) return ApiError{.message = where + ".input: must be an object", .param = where};
    turn.tool_calls.push_back(
        {{"id", *id}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", input}}}});
    return std::nullopt;
  }
  if (type == "tool_result" && role == "user") {
    const auto id = string_of(block, "tool_use_id", where);
    if (!id) return id.error();
    auto text = text_of(block.value("content", Json("")), where + ".content");
    if (!text) return text.error();
    const Json is_error = block.value("is_error", Json(false));
    if (!is_error.is_boolean() && !is_error.is_null()) {
      return ApiError{.message = where + ".is_error: must be true or false", .param = where};
    }
    if (is_error == true) text->insert(0, "Error: ");  // templates know no field for it
    turn.tool_results.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(*text)}});
    return std::nullopt;
  }
  if (type == "thinking" && role == "assistant") {
    const auto thinking = string_of(block, "thinking", where);
    if (!thinking) return thinking.error();
    turn.thinking += *thinking;
    return std::nullopt;
  }
  if (type == "redacted_thinking" && role == "assistant") return std::nullopt;  // nobody here can read it
  return ApiError{
      .message = fmt::format("{}: blocks of type \"{}\" are not supported in a turn of {}", where, type, role),
      .param = where};
}

ApiResult<Turn> read_turn(const Json& content, const std::string& role, const std::string& where) {
  Turn turn;
  if (content.is_string()) {
    turn.add_text(content.get<std::string>());
    return turn;
  }
  if (!content.is_array()) return bad_field(where, where + ": must be a string or a list of blocks");
  for (size_t i = 0; i < content.size(); ++i) {
    if (auto error = add_block(content[i], role, fmt::format("{}.{}", where, i), turn)) return std::unexpected(*error);
  }
  return turn;
}

// Turns of one role that follow each other are one turn; results of tools stand before the user's text.
void append_turn(Json& messages, const std::string& role, Turn turn) {
  for (Json& result : turn.tool_results) messages.push_back(std::move(result));
  if (!turn.any_text && turn.tool_calls.empty()) return;
  const bool joins = !messages.empty() && messages.back()["role"] == role && turn.tool_calls.empty() &&
                     turn.thinking.empty() && !messages.back().contains("tool_calls");
  if (joins) {
    messages.back()["content"] = messages.back()["content"].get<std::string>() + "\n" + turn.text;
    return;
  }
  Json message = {{"role", role}, {"content", std::move(turn.text)}};
  if (!turn.thinking.empty()) message["reasoning_content"] = std::move(turn.thinking);
  if (!turn.tool_calls.empty()) message["tool_calls"] = std::move(turn.tool_calls);
  messages.push_back(std::move(message));
}

}  // namespace

std::string type_of(const Json& block) {
  const auto type = block.is_object() ? block.find("type") : block.end();
  return type != block.end() && type->is_string() ? type->get<std::string>() : "";
}

ApiResult<Json> read_messages(const Json& list, const Json* system) {
  Json messages = Json::array();
  if (system != nullptr) {
    auto text = text_of(*system, "system");
    if (!text) return std::unexpected(text.error());
    if (!text->empty()) messages.push_back({{"role", "system"}, {"content", std::move(*text)}});
  }
  if (list.empty()) return bad_field("messages", "messages: at least one message is required");
  if (list.size() > kMessagesMax) return bad_field("messages", "messages: too many");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("messages.{}", i);
    const Json& message = list[i];
    if (!message.is_object()) return bad_field(where, where + ": must be an object");
    const auto role = string_of(message, "role", where);
    if (!role) return std::unexpected(role.error());
    if (*role != "user" && *role != "assistant") {
      return bad_field(where + ".role", fmt::format("{}.role: must be user or assistant", where));
    }
    auto turn = read_turn(message.value("content", Json()), *role, where + ".content");
    if (!turn) return std::unexpected(turn.error());
    append_turn(messages, *role, std::move(*turn));
  }
  if (messages.empty()) return bad_field("messages", "messages: have no content");
  return messages;
}

}  // namespace quern::anthropic
