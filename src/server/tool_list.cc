#include "server/tool_list.h"

#include <algorithm>

#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kNameBytesMax = 128;

bool is_tool_name(const Json& value) {
  if (!value.is_string()) return false;
  const auto& name = value.get_ref<const std::string&>();
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, fits);
}

}  // namespace

ApiResult<void> add_function(ToolList& list, const Json& function, const std::string& param, const char* schema_key) {
  const auto name = function.find("name");
  const std::string name_param = param + ".name";
  if (name == function.end() || !is_tool_name(*name)) {
    return bad_field(name_param,
                     fmt::format("{}: must be 1 to {} letters, digits, _, - or .", name_param, kNameBytesMax));
  }
  tools::Tool tool{.name = name->get<std::string>(), .parameters = Json::object()};
  const auto schema = function.find(schema_key);
  if (schema != function.end() && !schema->is_null()) {
    if (!schema->is_object()) {
      return bad_field(fmt::format("{}.{}", param, schema_key),
                       fmt::format("{}.{}: must be a schema, an object", param, schema_key));
    }
    tool.parameters = *schema;
  }
  if (std::ranges::find(list.tools, tool.name, &tools::Tool::name) != list.tools.end()) {
    return bad_field(name_param, fmt::format("{}: {} is there twice", name_param, tool.name));
  }
  list.tools.push_back(std::move(tool));
  list.choice = tools::ToolChoice::kAuto;
  return {};
}

Json shown_function(const Json& function, const char* schema_key) {
  Json result = {{"name", function["name"]}};
  if (const auto text = function.find("description"); text != function.end() && text->is_string()) {
    result["description"] = *text;
  }
  const auto schema = function.find(schema_key);
  if (schema != function.end() && !schema->is_null()) result["parameters"] = *schema;
  return {{"type", "function"}, {"function", std::move(result)}};
}

ApiResult<void> add_tools(ToolList& result, const Json& list) {
  if (list.size() > kToolsMax) {
    return bad_field("tools", fmt::format("tools: {} are over the limit of {}", list.size(), kToolsMax));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& tool = list[i];
    const std::string param = fmt::format("tools[{}]", i);
    if (!tool.is_object()) return bad_field(param, param + ": must be an object");
    if (tool.value("type", Json()) != "function") {
      return bad_field(param + ".type", param + ".type: only function is supported");
    }
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) {
      return bad_field(param + ".function", param + ".function: must be an object");
    }
    if (const auto added = add_function(result, *function, param + ".function"); !added) return added;
  }
  if (!list.empty()) result.shown = list;
  return {};
}

void hide_tools(ToolList& list) {
  list.shown = nullptr;
  list.tools.clear();
  list.choice = tools::ToolChoice::kNone;
}

ApiResult<void> require_call(ToolList& list, const std::string& param) {
  if (list.tools.empty()) return bad_field(param, param + ": there are no tools");
  list.choice = tools::ToolChoice::kRequired;
  return {};
}

ApiResult<bool> read_choice_word(const Json& choice, ToolList& list) {
  if (choice == "auto") return true;
  if (choice == "none") {
    hide_tools(list);
    return true;
  }
  if (choice != "required") return false;
  if (const auto required = require_call(list, "tool_choice"); !required) return std::unexpected(required.error());
  return true;
}

ApiResult<void> require_named(ToolList& list, const Json& name, const std::string& param) {
  if (const auto required = require_call(list, param); !required) return required;
  std::erase_if(list.tools, [&](const tools::Tool& tool) { return name != tool.name; });
  if (list.tools.empty()) return bad_field(param, param + ": names no tool of the request");
  list.parallel = false;
  return {};
}

ApiResult<Json> object_arguments(const Json& arguments, const std::string& param) {
  if (arguments.is_object()) return arguments;
  if (arguments.is_null()) return Json::object();
  if (!arguments.is_string()) return bad_field(param, param + ": must be JSON text");
  const auto& text = arguments.get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json::object();
  auto parsed = parse_json(text, param);
  if (!parsed) return bad_field(param, parsed.error().message);
  if (!parsed->is_object()) return bad_field(param, param + ": is not the JSON text of an object");
  return std::move(*parsed);
}

ApiResult<void> normalize_calls(Json& message, const std::string& param) {
  if (!message.contains("tool_calls")) return {};
  Json& calls = message["tool_calls"];
  if (!calls.is_array()) return bad_field(param + ".tool_calls", param + ".tool_calls: must be a list");
  if (calls.empty()) {
    message.erase("tool_calls");
    return {};
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string place = fmt::format("{}.tool_calls[{}]", param, i);
    Json& call = calls[i];
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      return bad_field(place, place + ": must be an object with a function");
    }
    Json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string()) {
      return bad_field(place + ".function.name", place + ".function.name: must be a string");
    }
    auto arguments = object_arguments(function.value("arguments", Json()), place + ".function.arguments");
    if (!arguments) return std::unexpected(arguments.error());
    function["arguments"] = std::move(*arguments);
    if (!call.contains("type")) call["type"] = "function";
  }
  return {};
}

}  // namespace quern
