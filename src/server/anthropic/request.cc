#include "server/anthropic/request.h"

#include <limits>

#include "base/status.h"
#include "server/anthropic/turns.h"
#include "server/fields.h"

namespace quern::anthropic {
namespace {

constexpr size_t kStopsMax = 64;
constexpr size_t kStopBytesMax = 4096;

// {name, description, input_schema}; tools that Anthropic's own servers run are refused by type.
ApiResult<void> read_tools(const Json& list, ToolList& result) {
  if (list.size() > kToolsMax) return bad_field("tools", fmt::format("tools: more than {}", kToolsMax));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("tools.{}", i);
    if (!list[i].is_object()) return bad_field(where, where + ": must be an object");
    const std::string type = type_of(list[i]);
    if (!type.empty() && type != "custom") {
      return bad_field(where, fmt::format("{}.type: tools of type \"{}\" do not run here", where, type));
    }
    if (!list[i].contains("input_schema") || !list[i]["input_schema"].is_object()) {
      return bad_field(where, where + ".input_schema: must be an object");
    }
    if (const auto added = add_function(result, list[i], where, "input_schema"); !added) return added;
    result.shown.push_back(shown_function(list[i], "input_schema"));
  }
  return {};
}

ApiResult<void> read_tool_choice(const Json& choice, ToolList& tools) {
  const std::string type = type_of(choice);
  const Json once = choice.value("disable_parallel_tool_use", Json(false));
  if (!once.is_boolean()) {
    return bad_field("tool_choice", "tool_choice.disable_parallel_tool_use: must be true or false");
  }
  tools.parallel = !once.get<bool>();
  if (type == "none") {
    hide_tools(tools);
    return {};
  }
  if (type == "auto") return {};
  if (type == "any") return require_call(tools, "tool_choice");
  if (type == "tool") return require_named(tools, choice.value("name", Json()), "tool_choice.name");
  return bad_field("tool_choice", "tool_choice.type: must be auto, any, tool or none");
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

// Without `thinking` or with {"type":"disabled"} the template is told not to think, and thoughts are not shown.
void read_thinking(Fields& fields, Purpose purpose, MessagesRequest& result) {
  const Json* thinking = fields.object("thinking");
  const std::string type = thinking != nullptr ? type_of(*thinking) : "disabled";
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    return fields.fault("thinking", "thinking.type: must be enabled, adaptive or disabled");
  }
  if (type != "adaptive") result.template_kwargs["enable_thinking"] = type == "enabled";
  result.show_thinking = type != "disabled";
  if (thinking == nullptr) return;
  Fields inner(*thinking);
  inner.accept({"type"});
  const auto budget = inner.integer("budget_tokens", 1, std::numeric_limits<int32_t>::max());
  if (const auto display = inner.string("display").value_or("summarized"); display != "summarized") {
    inner.fault("display", "display: only summarized is supported, and the thinking is shown as it is");
  }
  inner.refuse_unknown();
  if (type == "enabled") {
    if (!budget) inner.fault("budget_tokens", "budget_tokens: Field required");
    if (budget && purpose == Purpose::kAnswer && *budget >= result.request.max_tokens) {
      inner.fault("budget_tokens", "budget_tokens: must be less than max_tokens");
    }
    if (budget) result.thinking_budget = static_cast<int32_t>(*budget);
  }
  if (inner.ok()) return;
  const ApiError error = inner.take_error();
  fields.fault("thinking." + error.param, "thinking." + error.message);
}

// {"format":{"type":"json_schema","schema":…},"effort":…}
void read_output_config(Fields& fields, MessagesRequest& result) {
  const Json* config = fields.object("output_config");
  if (config == nullptr) return;
  Fields inner(*config);
  if (const auto effort = inner.string("effort")) result.template_kwargs["reasoning_effort"] = *effort;
  if (const Json* format = inner.object("format")) {
    const auto schema = format->find("schema");
    if (type_of(*format) != "json_schema" || schema == format->end() || !schema->is_object()) {
      inner.fault("format", R"(format: must be {"type":"json_schema","schema":{…}})");
    } else {
      result.grammar = GrammarSpec{.kind = GrammarKind::kJsonSchema, .text = dump_json(*schema), .frame = {}};
    }
  }
  inner.refuse_unknown();
  if (inner.ok()) return;
  const ApiError error = inner.take_error();
  fields.fault("output_config." + error.param, "output_config." + error.message);
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
  read_thinking(fields, purpose, result);
  read_output_config(fields, result);
  const Json* tools = fields.array("tools");
  const Json* choice = fields.object("tool_choice");
  ApiResult<void> tools_read;
  if (tools != nullptr) tools_read = read_tools(*tools, result.tools);
  if (tools_read && choice != nullptr) tools_read = read_tool_choice(*choice, result.tools);
  if (!tools_read) fields.fault(tools_read.error().param, tools_read.error().message);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto read = read_messages(*messages, system);
  if (!read) return std::unexpected(read.error());
  result.messages = std::move(*read);
  result.continue_final_message = result.messages.back()["role"] == "assistant";
  return result;
}

}  // namespace quern::anthropic
