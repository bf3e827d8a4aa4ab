#include "server/responses/request.h"

#include <limits>

#include "base/status.h"
#include "server/fields.h"
#include "server/route.h"

namespace quern::responses {
namespace {

constexpr size_t kItemsMax = 10'000;

std::string string_field(const Json& object, const char* name) {
  const auto place = object.find(name);
  return place != object.end() && place->is_string() ? place->get<std::string>() : "";
}

// Text parts of a message, joined by newlines.
ApiResult<std::string> content_text(const Json& content, const std::string& where) {
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
    auto text = content_text(result.value("content", Json()), where + ".content");
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
    if (!parse_json(result["arguments"].get<std::string>(), "arguments")) {
      return bad_field(where, where + ".arguments: is not JSON");
    }
  } else if (type == "function_call_output") {
    if (string_field(result, "call_id").empty()) return bad_field(where, where + ".call_id: must be a string");
    auto text = content_text(result.value("output", Json()), where + ".output");
    if (!text) return std::unexpected(text.error());
    result["output"] = std::move(*text);
  } else if (type != "reasoning") {
    return bad_field(where, fmt::format("{}: items of type \"{}\" are not supported", where, type));
  }
  if (string_field(result, "id").empty()) result["id"] = random_id(type == "message" ? "msg_" : "item_");
  return result;
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

void refuse_unless(Fields& fields, const char* name, bool (*harmless)(const Json&)) {
  const Json* value = fields.any(name);
  if (value != nullptr && !harmless(*value)) {
    fields.fault(name, fmt::format("{}: this value is not supported", name));
  }
}

void refuse_unsupported(Fields& fields) {
  refuse_unless(fields, "tools", [](const Json& value) { return value == Json::array(); });
  refuse_unless(fields, "tool_choice", [](const Json& value) { return value == "auto" || value == "none"; });
  refuse_unless(fields, "include", [](const Json& value) { return value == Json::array(); });
  refuse_unless(fields, "top_logprobs", [](const Json& value) { return value == 0; });
  refuse_unless(fields, "truncation", [](const Json& value) { return value == "disabled"; });
  refuse_unless(fields, "conversation", [](const Json&) { return false; });
  refuse_unless(fields, "prompt", [](const Json&) { return false; });
  refuse_unless(fields, "reasoning", [](const Json& value) {
    return value.is_object() && (!value.contains("effort") || value["effort"].is_null() || value["effort"] == "none");
  });
  refuse_unless(fields, "text", [](const Json& value) {
    if (!value.is_object()) return false;
    const auto format = value.find("format");
    return format == value.end() || (format->is_object() && format->value("type", "") == "text");
  });
  fields.accept({"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
                 "parallel_tool_calls", "max_tool_calls", "stream_options"});
}

}  // namespace

ApiResult<ResponseRequest> parse_response_request(const Json& body, const SamplingOptions& defaults) {
  Fields fields(body);
  ResponseRequest result;
  result.model = fields.string("model").value_or("");
  const Json* input = fields.any("input");
  if (input == nullptr) fields.fault("input", "input: is missing");
  result.instructions = fields.string("instructions").value_or("");
  result.previous_id = fields.string("previous_response_id").value_or("");
  result.request.sampling = defaults;
  if (const auto value = fields.number("temperature", 0, 2)) {
    result.request.sampling.temperature = static_cast<float>(*value);
  }
  if (const auto value = fields.number("top_p", std::numeric_limits<float>::min(), 1)) {
    result.request.sampling.top_p = static_cast<float>(*value);
  }
  const auto max_tokens = fields.integer("max_output_tokens", 1, std::numeric_limits<int64_t>::max());
  constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();
  result.request.max_tokens = static_cast<int32_t>(std::min(max_tokens.value_or(0), kTokensMax));
  result.store = fields.boolean("store").value_or(true);
  result.stream = fields.boolean("stream").value_or(false);
  result.background = fields.boolean("background").value_or(false);
  if (result.background && !result.store) fields.fault("background", "background: needs store");
  if (result.background && result.stream) fields.fault("background", "background: not together with stream");
  if (const Json* metadata = fields.object("metadata")) result.metadata = *metadata;
  refuse_unsupported(fields);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto items = read_input(*input);
  if (!items) return std::unexpected(items.error());
  result.input = std::move(*items);
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  result.echo = {{"instructions", text_or_null(result.instructions)},
                 {"previous_response_id", text_or_null(result.previous_id)},
                 {"max_output_tokens", max_tokens ? Json(*max_tokens) : Json(nullptr)},
                 {"temperature", result.request.sampling.temperature},
                 {"top_p", result.request.sampling.top_p},
                 {"metadata", result.metadata},
                 {"store", result.store},
                 {"background", result.background}};
  return result;
}

ApiResult<Json> messages_of(const Json& items, const std::string& instructions) {
  Json messages = Json::array();
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  for (const Json& item : items) {
    const std::string type = string_field(item, "type");
    if (type == "message") {
      std::string role = string_field(item, "role");
      if (role == "developer") role = "system";
      auto text = content_text(item.value("content", Json("")), "content");
      if (!text) return std::unexpected(text.error());
      messages.push_back({{"role", role}, {"content", std::move(*text)}});
    } else if (type == "function_call") {
      auto arguments = parse_json(item["arguments"].get<std::string>(), "arguments");
      if (!arguments) return std::unexpected(to_api_error(arguments.error()));
      Json call = {{"id", item["call_id"]},
                   {"type", "function"},
                   {"function", {{"name", item["name"]}, {"arguments", std::move(*arguments)}}}};
      messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({std::move(call)})}});
    } else if (type == "function_call_output") {
      messages.push_back({{"role", "tool"}, {"tool_call_id", item["call_id"]}, {"content", item["output"]}});
    }
  }
  return messages;
}

}  // namespace quern::responses
