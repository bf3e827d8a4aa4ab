#include "server/responses/request.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "server/fields.h"
#include "server/responses/items.h"

namespace quern::responses {
namespace {

void refuse_unless(Fields& fields, const char* name, bool (*harmless)(const Json&)) {
  const Json* value = fields.any(name);
  if (value != nullptr && !harmless(*value)) {
    fields.fault(name, fmt::format("{}: this value is not supported", name));
  }
}

void refuse_unsupported(Fields& fields) {
  refuse_unless(fields, "include", [](const Json& value) { return value == Json::array(); });
  refuse_unless(fields, "top_logprobs", [](const Json& value) { return value == 0; });
  refuse_unless(fields, "truncation", [](const Json& value) { return value == "disabled"; });
  refuse_unless(fields, "conversation", [](const Json&) { return false; });
  refuse_unless(fields, "prompt", [](const Json&) { return false; });
  fields.accept({"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
                 "max_tool_calls", "stream_options"});
}

// {"type":"function","name":…,"parameters":…}; tools that OpenAI's own servers run are refused by type.
ApiResult<void> add_tool_entries(const Json& list, ToolList& result) {
  if (list.size() > kToolsMax) return bad_field("tools", fmt::format("tools: more than {}", kToolsMax));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string param = fmt::format("tools[{}]", i);
    if (!list[i].is_object()) return bad_field(param, param + ": must be an object");
    if (const std::string type = string_field(list[i], "type"); type != "function") {
      return bad_field(param + ".type", fmt::format("{}.type: tools of type \"{}\" do not run here", param, type));
    }
    if (const auto added = add_function(result, list[i], param); !added) return added;
    result.shown.push_back(shown_function(list[i]));
  }
  return {};
}

ApiResult<void> read_tool_choice(const Json& choice, ToolList& tools) {
  const auto word = read_choice_word(choice, tools);
  if (!word) return std::unexpected(word.error());
  if (*word) return {};
  if (!choice.is_object() || string_field(choice, "type") != "function") {
    return bad_field("tool_choice", R"(tool_choice: must be none, auto, required or {"type":"function","name":…})");
  }
  return require_named(tools, choice.value("name", Json()), "tool_choice");
}

void read_tools(Fields& fields, ResponseRequest& result) {
  const Json* list = fields.array("tools");
  const Json* choice = fields.any("tool_choice");
  result.tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  result.echo["parallel_tool_calls"] = result.tools.parallel;
  result.echo["tools"] = list != nullptr ? *list : Json::array();
  result.echo["tool_choice"] = choice != nullptr ? *choice : Json("auto");
  ApiResult<void> read;
  if (list != nullptr) read = add_tool_entries(*list, result.tools);
  if (read && choice != nullptr) read = read_tool_choice(*choice, result.tools);
  if (!read) fields.fault(read.error().param, read.error().message);
}

// text.format: text, json_object, or json_schema with its schema beside.
void read_text_format(Fields& fields, ResponseRequest& result) {
  Json& echo = result.echo["text"] = {{"format", {{"type", "text"}}}};
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  echo.update(*text);
  const auto format = text->find("format");
  if (format == text->end() || format->is_null()) return;
  const std::string type = format->is_object() ? string_field(*format, "type") : "";
  if (type == "json_object") {
    result.grammar = GrammarSpec{.kind = GrammarKind::kJsonObject, .text = {}, .frame = {}};
  } else if (type == "json_schema") {
    const auto schema = format->find("schema");
    if (schema == format->end() || !schema->is_object()) {
      return fields.fault("text.format.schema", "text.format.schema: must be a schema, an object");
    }
    result.grammar = GrammarSpec{.kind = GrammarKind::kJsonSchema, .text = dump_json(*schema), .frame = {}};
  } else if (type != "text") {
    fields.fault("text.format.type", "text.format.type: must be text, json_object or json_schema");
  }
}

void read_reasoning(Fields& fields, ResponseRequest& result) {
  Json& echo = result.echo["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  echo.update(*reasoning);
  Fields inner(*reasoning);
  if (const auto effort = inner.string("effort")) {
    constexpr std::string_view kEfforts[] = {"minimal", "low", "medium", "high", "xhigh"};
    if (*effort == "none") {
      result.template_kwargs["enable_thinking"] = false;
    } else if (std::ranges::find(kEfforts, *effort) != std::end(kEfforts)) {
      result.template_kwargs["reasoning_effort"] = *effort;
    } else {
      inner.fault("effort", "effort: must be none, minimal, low, medium, high or xhigh");
    }
  }
  // Nobody here writes summaries; auto asks for what there is.
  for (const char* name : {"summary", "generate_summary"}) {
    if (inner.string(name).value_or("auto") != "auto")
      inner.fault(name, fmt::format("{}: only auto is supported", name));
  }
  inner.refuse_unknown();
  if (inner.ok()) return;
  const ApiError error = inner.take_error();
  fields.fault("reasoning." + error.param, "reasoning." + error.message);
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
  result.echo = Json::object();
  read_tools(fields, result);
  read_text_format(fields, result);
  read_reasoning(fields, result);
  refuse_unsupported(fields);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto items = read_input(*input);
  if (!items) return std::unexpected(items.error());
  result.input = std::move(*items);
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  result.echo.update({{"instructions", text_or_null(result.instructions)},
                      {"previous_response_id", text_or_null(result.previous_id)},
                      {"max_output_tokens", max_tokens ? Json(*max_tokens) : Json(nullptr)},
                      {"temperature", result.request.sampling.temperature},
                      {"top_p", result.request.sampling.top_p},
                      {"metadata", result.metadata},
                      {"store", result.store},
                      {"background", result.background}});
  return result;
}

}  // namespace quern::responses
