#include "server/tools/tool_grammar.h"

#include "base/status.h"
#include "server/tools/answer_frame.h"
#include "text/grammar_parts.h"
#include "text/json_schema.h"

namespace quern::tools {
namespace {

constexpr int kCallsMax = 8;

// The schema moves down by `prefix`; what it says about itself from the top has to follow.
void move_references(Json& node, const std::string& prefix) {
  if (node.is_array()) {
    for (Json& item : node) move_references(item, prefix);
  }
  if (!node.is_object()) return;
  for (auto& [key, value] : node.items()) {
    if (key == "$ref" && value.is_string()) {
      const auto reference = value.get<std::string>();
      if (reference.starts_with('#')) value = "#" + prefix + (reference == "#/" ? "" : reference.substr(1));
    } else if (key != "const" && key != "enum") {
      move_references(value, prefix);
    }
  }
}

Result<Json> arguments_schema(const Tool& tool) {
  Json schema = tool.parameters.is_object() ? tool.parameters : Json::object();
  if (!schema.contains("type") && !schema.contains("$ref") && !schema.contains("anyOf") && !schema.contains("oneOf") &&
      !schema.contains("allOf")) {
    schema["type"] = "object";
  }
  // A tool that says nothing of further arguments knows none.
  if (schema.contains("properties") && !schema.contains("additionalProperties")) {
    schema["additionalProperties"] = false;
  }
  schema.erase("$schema");
  auto strict = strict_schema(std::move(schema));
  if (!strict) return invalid_argument(fmt::format("{}: {}", tool.name, strict.error().message));
  return strict;
}

std::string inline_json(Json schema) {
  schema["x-guidance"] = {{"whitespace_flexible", true}, {"whitespace_pattern", kJsonBlanks}};
  return "%json " + dump_json(schema);
}

// {"name": …, "arguments": {…}}
Result<std::string> object_call(const Tool& tool, const char* key) {
  QUERN_ASSIGN(Json arguments, arguments_schema(tool));
  move_references(arguments, std::string("/properties/") + key);
  return inline_json({{"type", "object"},
                      {"properties", {{"name", {{"const", tool.name}}}, {key, std::move(arguments)}}},
                      {"required", Json::array({"name", key})},
                      {"additionalProperties", false}});
}

// How the calls of a format stand in an answer, in pieces of Lark.
struct Layout {
  std::string begin, end;            // around all calls
  std::string call_begin, call_end;  // around each
  std::string between;               // separates them; empty: nothing
  bool named = false;                // name and arguments apart: `name_end` between them
  std::string name_begin, name_end;
  const char* arguments_key = "arguments";
};

Layout layout_of(const Tokenizer& tokenizer, const OutputFormat& format) {
  const auto mark = [&](std::string_view text) { return lark_mark(tokenizer, text); };
  Layout layout;
  switch (forced_format(format.tools)) {
    case ToolFormat::kHermes:
      layout.call_begin = mark("<tool_call>") + " \"\\n\"";
      layout.call_end = "\"\\n\" " + mark("</tool_call>");
      layout.between = "\"\\n\"";
      break;
    case ToolFormat::kLlama3Json:
      layout.arguments_key = "parameters";
      layout.between = "\"; \"";
      break;
    case ToolFormat::kMistral:
      if (format.mistral_args) {
        layout.named = true;
        layout.name_begin = mark("[TOOL_CALLS]");
        layout.name_end = mark("[ARGS]");
      } else {
        layout.begin = mark("[TOOL_CALLS]") + " \"[\"";
        layout.end = "\"]\"";
        layout.between = "\", \"";
      }
      break;
    case ToolFormat::kDeepSeek:
      layout.named = true;
      layout.begin = mark("<｜tool▁calls▁begin｜>");
      layout.end = mark("<｜tool▁calls▁end｜>");
      layout.call_end = (format.deepseek_fenced ? "\"\\n```\" " : "") + mark("<｜tool▁call▁end｜>");
      layout.name_begin = mark("<｜tool▁call▁begin｜>");
      layout.name_end = mark("<｜tool▁sep｜>");
      if (format.deepseek_fenced) {
        layout.name_begin += " \"function\" " + layout.name_end;
        layout.name_end = "\"\\n```json\\n\"";
      }
      break;
    case ToolFormat::kHarmony:
      layout.named = true;
      layout.name_begin = mark("<|channel|>") + " \"commentary to=functions.\"";
      layout.name_end = "\" \" " + mark("<|constrain|>") + " \"json\" " + mark("<|message|>");
      break;
    default:
      layout.begin = "\"[\"";
      layout.end = "\"]\"";
      layout.between = "\", \"";
      break;
  }
  return layout;
}

}  // namespace

ToolFormat forced_format(ToolFormat format) {
  return format == ToolFormat::kPythonic || format == ToolFormat::kNone ? ToolFormat::kJson : format;
}

Result<GrammarSpec> tool_grammar(const Tokenizer& tokenizer, const OutputFormat& format, const std::vector<Tool>& tools,
                                 bool parallel) {
  const Layout layout = layout_of(tokenizer, format);
  // Harmony ends its message with the call.
  const bool several = parallel && format.tools != ToolFormat::kHarmony;
  std::string lark = fmt::format("start: {} call", layout.begin);
  if (several) lark += fmt::format(" ({} call){{0,{}}}", layout.between, kCallsMax - 1);
  lark += fmt::format(" {}\ncall: {} tool {}\ntool: ", layout.end, layout.call_begin, layout.call_end);
  for (size_t i = 0; i < tools.size(); ++i) lark += fmt::format("{}tool_{}", i > 0 ? " | " : "", i);
  lark += "\n";
  for (size_t i = 0; i < tools.size(); ++i) {
    if (layout.named) {
      QUERN_ASSIGN(Json arguments, arguments_schema(tools[i]));
      lark += fmt::format("tool_{}: {} {} {} {}\n", i, layout.name_begin, lark_string(tools[i].name), layout.name_end,
                          inline_json(std::move(arguments)));
    } else {
      QUERN_ASSIGN(const std::string call, object_call(tools[i], layout.arguments_key));
      lark += fmt::format("tool_{}: {}\n", i, call);
    }
  }
  return GrammarSpec{.kind = GrammarKind::kGrammar, .text = std::move(lark), .frame = {}};
}

}  // namespace quern::tools
