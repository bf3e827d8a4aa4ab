#include "server/responses/items.h"

#include "base/status.h"
#include "server/route.h"
#include "server/tool_list.h"

namespace quern::responses {
namespace {

constexpr size_t kItemsMax = 10'000;

// Text parts of a message, joined by newlines.
ApiResult<std::string> text_of_content(const Json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return bad_field(where, where + ": must be a string or a list of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string type = content[i].is_object() ? string_field(content[i], "type") : "";
    if (type != "input_text" && type != "output_text" && type != "text") {
      return bad_field(where, fmt::format("{}[{}]: parts of type \"{}\" are not supported", where, i, type));
    }
    const auto part = content[i].find("text");
    if (part == content[i].end() || !part->is_string()) {
      return bad_field(where, fmt::format("{}[{}].text: must be a string", where, i));
    }
    if (i > 0) text += '\n';
    text += part->get<std::string>();
  }
  return text;
}

// An item as it is kept: checked, with a type and an id.
ApiResult<Json> read_item(const Json& item, size_t index) {
  const std::string where = fmt::format("input[{}]", index);
  if (!item.is_object()) return bad_field(where, where + ": must be an object");
  Json result = item;
  if (!result.contains("type") && result.contains("role")) result["type"] = "message";
  const std::string type = string_field(result, "type");
  if (type == "message") {
    const std::string role = string_field(result, "role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
      return bad_field(where + ".role", fmt::format("{}.role: \"{}\" is not a role", where, role));
    }
    auto text = text_of_content(result.value("content", Json()), where + ".content");
    if (!text) return std::unexpected(text.error());
    const char* part = role == "assistant" ? "output_text" : "input_text";
    Json content = {{"type", part}, {"text", std::move(*text)}};
    if (role == "assistant") content["annotations"] = Json::array();
    result["content"] = Json::array({std::move(content)});
    result["status"] = "completed";
  } else if (type == "function_call") {
    for (const char* name : {"call_id", "name", "arguments"}) {
      if (!result.contains(name) || !result[name].is_string()) {
        return bad_field(where, fmt::format("{}.{}: must be a string", where, name));
      }
    }
    const auto arguments = object_arguments(result["arguments"], where + ".arguments");
    if (!arguments) return std::unexpected(arguments.error());
  } else if (type == "function_call_output") {
    if (string_field(result, "call_id").empty()) return bad_field(where, where + ".call_id: must be a string");
    auto text = text_of_content(result.value("output", Json()), where + ".output");
    if (!text) return std::unexpected(text.error());
    result["output"] = std::move(*text);
  } else if (type != "reasoning") {
    return bad_field(where, fmt::format("{}: items of type \"{}\" are not supported", where, type));
  }
  if (string_field(result, "id").empty()) result["id"] = random_id(type == "message" ? "msg_" : "item_");
  return result;
}

// The text of a reasoning item: its content, or else its summary.
std::string reasoning_text(const Json& item) {
  for (const char* name : {"content", "summary"}) {
    const auto parts = item.find(name);
    if (parts == item.end() || !parts->is_array()) continue;
    std::string text;
    for (const Json& part : *parts) {
      if (part.is_object()) text += string_field(part, "text");
    }
    if (!text.empty()) return text;
  }
  return "";
}

// Calls, text and reasoning that follow each other are one turn of the assistant.
ApiResult<void> append_call(const Json& item, const std::string& reasoning, Json& messages) {
  auto arguments = object_arguments(item["arguments"], "arguments");
  if (!arguments) return std::unexpected(arguments.error());
  const bool joins = reasoning.empty() && !messages.empty() && messages.back()["role"] == "assistant";
  if (!joins) messages.push_back({{"role", "assistant"}, {"content", ""}});
  Json& turn = messages.back();
  if (!reasoning.empty()) turn["reasoning_content"] = reasoning;
  turn["tool_calls"].push_back({{"id", item["call_id"]},
                                {"type", "function"},
                                {"function", {{"name", item["name"]}, {"arguments", std::move(*arguments)}}}});
  return {};
}

}  // namespace

std::string string_field(const Json& object, const char* name) {
  const auto place = object.find(name);
  return place != object.end() && place->is_string() ? place->get<std::string>() : "";
}

ApiResult<Json> read_input(const Json& input) {
  Json items = Json::array();
  if (input.is_string()) {
    auto item = read_item({{"role", "user"}, {"content", input}}, 0);
    if (!item) return item;
    items.push_back(std::move(*item));
    return items;
  }
  if (!input.is_array() || input.empty()) return bad_field("input", "input: must be a string or a list of items");
  if (input.size() > kItemsMax) return bad_field("input", fmt::format("input: more than {} items", kItemsMax));
  for (size_t i = 0; i < input.size(); ++i) {
    auto item = read_item(input[i], i);
    if (!item) return item;
    items.push_back(std::move(*item));
  }
  return items;
}

ApiResult<Json> messages_of(const Json& items, const std::string& instructions) {
  Json messages = Json::array();
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  std::string reasoning;  // of the turn that follows
  for (const Json& item : items) {
    const std::string type = string_field(item, "type");
    if (type == "message") {
      std::string role = string_field(item, "role");
      if (role == "developer") role = "system";
      auto text = text_of_content(item.value("content", Json("")), "content");
      if (!text) return std::unexpected(text.error());
      messages.push_back({{"role", role}, {"content", std::move(*text)}});
      if (role == "assistant" && !reasoning.empty()) messages.back()["reasoning_content"] = reasoning;
    } else if (type == "function_call") {
      if (const auto added = append_call(item, reasoning, messages); !added) return std::unexpected(added.error());
    } else if (type == "function_call_output") {
      messages.push_back({{"role", "tool"}, {"tool_call_id", item["call_id"]}, {"content", item["output"]}});
    }
    reasoning = type == "reasoning" ? reasoning_text(item) : "";
  }
  return messages;
}

}  // namespace quern::responses
