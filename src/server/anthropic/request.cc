#include "server/anthropic/request.h"

#include <limits>

#include "base/status.h"
#include "server/fields.h"

namespace quern::anthropic {
namespace {

constexpr size_t kStopsMax = 64;
constexpr size_t kStopBytesMax = 4096;
constexpr size_t kMessagesMax = 100'000;

std::string type_of(const Json& block) {
  const auto type = block.is_object() ? block.find("type") : block.end();
  return type != block.end() && type->is_string() ? type->get<std::string>() : "";
}

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
    const auto text = text_of(block.value("content", Json("")), where + ".content");
    if (!text) return text.error();
    turn.tool_results.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", *text}});
    return std::nullopt;
  }
  if ((type == "thinking" || type == "redacted_thinking") && role == "assistant") return std::nullopt;  // not replayed
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
                     !messages.back().contains("tool_calls");
  if (joins) {
    messages.back()["content"] = messages.back()["content"].get<std::string>() + "\n" + turn.text;
    return;
  }
  Json message = {{"role", role}, {"content", std::move(turn.text)}};
  if (!turn.tool_calls.empty()) message["tool_calls"] = std::move(turn.tool_calls);
  messages.push_back(std::move(message));
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

// {name, description, input_schema} to the function objects that templates know.
ApiResult<Json> read_tools(const Json& list) {
  Json tools = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("tools.{}", i);
    if (!list[i].is_object()) return bad_field(where, where + ": must be an object");
    const std::string type = type_of(list[i]);
    if (!type.empty() && type != "custom") {
      return bad_field(where, fmt::format("{}.type: tools of type \"{}\" do not run here", where, type));
    }
    const auto name = string_of(list[i], "name", where);
    if (!name) return std::unexpected(name.error());
    const auto schema = list[i].find("input_schema");
    if (schema == list[i].end() || !schema->is_object()) {
      return bad_field(where, where + ".input_schema: must be an object");
    }
    Json function = {{"name", *name}, {"parameters", *schema}};
    if (const auto text = list[i].find("description"); text != list[i].end() && text->is_string()) {
      function["description"] = *text;
    }
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return tools;
}

void read_sampling(Fields& fields, Request& request) {
  const auto set = [&](float& target, const char* name, double min) {
    if (const auto value = fields.number(name, min, 1)) target = static_cast<float>(*value);
  };
  set(request.sampling.temperature, "temperature", 0);
  set(request.sampling.top_p, "top_p", std::numeric_limits<float>::min());
  if (const auto top_k = fields.integer("top_k", 0, std::numeric_limits<int32_t>::max())) {
    request.sampling.top_k = static_cast<int32_t>(*top_k);
  }
  const auto stops =
      fields.array("stop_sequences") != nullptr ? fields.string_or_strings("stop_sequences", kStopsMax) : std::nullopt;
  if (!stops) return;
  for (const std::string& stop : *stops) {
    if (stop.empty()) return fields.fault("stop_sequences", "stop_sequences: an empty string cannot end an answer");
    if (stop.size() > kStopBytesMax) return fields.fault("stop_sequences", "stop_sequences: a string is too long");
    request.stop.push_back(stop);
  }
}

// thinking and tool_choice can be honoured when they ask for nothing special.
void read_choices(Fields& fields, MessagesRequest& result) {
  if (const Json* thinking = fields.object("thinking"); thinking != nullptr && type_of(*thinking) != "disabled") {
    fields.fault("thinking", "thinking: only {\"type\": \"disabled\"} is supported");
  }
  if (const Json* choice = fields.object("tool_choice")) {
    const std::string type = type_of(*choice);
    if (type == "none") result.tools = nullptr;
    if (type != "none" && type != "auto") fields.fault("tool_choice", "tool_choice: only auto and none are supported");
  }
}

}  // namespace

ApiResult<MessagesRequest> parse_messages_request(const Json& body, const SamplingOptions& defaults, Purpose purpose) {
  Fields fields(body);
  MessagesRequest result;
  result.request.sampling = defaults;
  fields.accept({"metadata", "service_tier", "container", "inference_geo"});
  result.model = fields.string("model").value_or("");
  const Json* messages = fields.array("messages");
  if (messages == nullptr) fields.fault("messages", "messages: Field required");
  const Json* system = fields.any("system");
  const auto max_tokens = fields.integer("max_tokens", 1, std::numeric_limits<int64_t>::max());
  if (!max_tokens && purpose == Purpose::kAnswer) fields.fault("max_tokens", "max_tokens: Field required");
  constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();
  result.request.max_tokens = static_cast<int32_t>(std::min(max_tokens.value_or(0), kTokensMax));
  result.stream = fields.boolean("stream").value_or(false);
  read_sampling(fields, result.request);
  const Json* tools = fields.array("tools");
  if (fields.ok() && tools != nullptr && !tools->empty()) {
    auto read = read_tools(*tools);
    if (!read) return std::unexpected(read.error());
    result.tools = std::move(*read);
  }
  read_choices(fields, result);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto read = read_messages(*messages, system);
  if (!read) return std::unexpected(read.error());
  result.messages = std::move(*read);
  result.continue_final_message = result.messages.back()["role"] == "assistant";
  return result;
}

}  // namespace quern::anthropic
