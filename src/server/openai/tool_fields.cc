#include "server/openai/tool_fields.h"

#include <algorithm>

#include "base/status.h"

namespace quern::openai {
namespace {

constexpr size_t kToolsMax = 128;
constexpr size_t kNameBytesMax = 64;

bool is_tool_name(const Json& value) {
  if (!value.is_string()) return false;
  const auto& name = value.get_ref<const std::string&>();
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, fits);
}

ApiResult<tools::Tool> read_tool(const Json& json, const std::string& param) {
  if (!json.is_object()) return bad_field(param, param + ": must be an object");
  if (json.value("type", Json()) != "function")
    return bad_field(param + ".type", param + ".type: only function is supported");
  const auto function = json.find("function");
  if (function == json.end() || !function->is_object()) {
    return bad_field(param + ".function", param + ".function: must be an object");
  }
  const auto name = function->find("name");
  if (name == function->end() || !is_tool_name(*name)) {
    return bad_field(param + ".function.name",
                     fmt::format("{}.function.name: must be 1 to {} letters, digits, _, - or .", param, kNameBytesMax));
  }
  tools::Tool tool{.name = name->get<std::string>(), .parameters = Json::object()};
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_null()) {
    if (!parameters->is_object()) {
      return bad_field(param + ".function.parameters", param + ".function.parameters: must be a schema, an object");
    }
    tool.parameters = *parameters;
  }
  return tool;
}

void read_choice(Fields& fields, ToolFields& result) {
  const Json* choice = fields.any("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    result.choice = tools::ToolChoice::kNone;
    result.shown = nullptr;
    result.tools.clear();
    return;
  }
  if (result.tools.empty()) return fields.fault("tool_choice", "tool_choice: there are no tools");
  result.choice = tools::ToolChoice::kRequired;
  if (*choice == "required") return;
  if (!choice->is_object() || choice->value("type", Json()) != "function" || !choice->contains("function") ||
      !(*choice)["function"].is_object()) {
    return fields.fault("tool_choice",
                        R"(tool_choice: must be none, auto, required or {"type":"function","function":{"name":…}})");
  }
  const Json name = (*choice)["function"].value("name", Json());
  std::erase_if(result.tools, [&](const tools::Tool& tool) { return name != tool.name; });
  if (result.tools.empty()) return fields.fault("tool_choice", "tool_choice: names no tool of the request");
  result.parallel = false;  // the named one, once
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

}  // namespace

ToolFields read_tools(Fields& fields) {
  ToolFields result;
  result.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* list = fields.array("tools");
  if (list != nullptr && list->size() > kToolsMax) {
    fields.fault("tools", fmt::format("tools: {} are over the limit of {}", list->size(), kToolsMax));
  } else if (list != nullptr && !list->empty()) {
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string param = fmt::format("tools[{}]", i);
      auto tool = read_tool((*list)[i], param);
      if (!tool) {
        fields.fault(tool.error().param, tool.error().message);
        return result;
      }
      if (std::ranges::find(result.tools, tool->name, &tools::Tool::name) != result.tools.end()) {
        fields.fault(param + ".function.name", fmt::format("{}.function.name: {} is there twice", param, tool->name));
      }
      result.tools.push_back(std::move(*tool));
    }
    result.shown = *list;
    result.choice = tools::ToolChoice::kAuto;
  }
  read_choice(fields, result);
  return result;
}

ApiResult<void> normalize_assistant(Json& message, const std::string& param) {
  if (message.contains("reasoning") && !message.contains("reasoning_content")) {
    message["reasoning_content"] = message["reasoning"];
  }
  message.erase("reasoning");
  if (message.contains("reasoning_content") && !message["reasoning_content"].is_string())
    message.erase("reasoning_content");
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

}  // namespace quern::openai
