#include "server/tools/format_choice.h"

#include "base/status.h"
#include "server/tools/formats.h"

namespace quern::tools {
namespace {

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

ToolFormat detect_tools(std::string_view text) {
  if (has(text, "<|channel|>") && has(text, "<|message|>")) return ToolFormat::kHarmony;
  if (has(text, "[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (has(text, "<｜tool▁call▁begin｜>")) return ToolFormat::kDeepSeek;
  if (has(text, "<tool_call>") && !has(text, "<function=") && !has(text, "<arg_key>")) return ToolFormat::kHermes;
  if (has(text, "tool_code") || (has(text, "<|start_header_id|>") && has(text, "[func_name1(")))
    return ToolFormat::kPythonic;
  if (has(text, "<|start_header_id|>")) return ToolFormat::kLlama3Json;
  return ToolFormat::kJson;
}

Result<ToolFormat> tool_format(std::string_view name, std::string_view chat_template) {
  if (name == "auto") return detect_tools(chat_template);
  if (name == "none") return ToolFormat::kNone;
  if (name == "hermes") return ToolFormat::kHermes;
  if (name == "llama3_json") return ToolFormat::kLlama3Json;
  if (name == "mistral") return ToolFormat::kMistral;
  if (name == "deepseek_v3") return ToolFormat::kDeepSeek;
  if (name == "openai") return ToolFormat::kHarmony;
  if (name == "pythonic") return ToolFormat::kPythonic;
  if (name == "json") return ToolFormat::kJson;
  return invalid_argument(
      fmt::format("tool-call-parser: '{}' is not one of auto, none, hermes, llama3_json, mistral, deepseek_v3, openai, "
                  "pythonic, json",
                  name));
}

Result<ReasoningMarks> reasoning_marks(std::string_view name, std::string_view chat_template) {
  const ReasoningMarks think = {"<think>", "</think>"}, seed = {"<seed:think>", "</seed:think>"},
                       mistral = {"[THINK]", "[/THINK]"};
  if (name == "none") return ReasoningMarks{};
  if (name == "think" || name == "deepseek_r1" || name == "qwen3") return think;
  if (name == "mistral") return mistral;
  if (name == "openai") return ReasoningMarks{};  // part of the format itself
  if (name != "auto") {
    return invalid_argument(fmt::format(
        "reasoning-parser: '{}' is not one of auto, none, think, deepseek_r1, qwen3, mistral, openai", name));
  }
  if (has(chat_template, seed.close)) return seed;
  if (has(chat_template, think.close)) return think;
  if (has(chat_template, mistral.close)) return mistral;
  return ReasoningMarks{};
}

}  // namespace

Result<OutputFormat> choose_output_format(std::string_view chat_template, std::string_view tool_parser,
                                          std::string_view reasoning_parser) {
  OutputFormat format;
  QUERN_ASSIGN(format.tools, tool_format(tool_parser, chat_template));
  QUERN_ASSIGN(format.reasoning, reasoning_marks(reasoning_parser, chat_template));
  if (format.tools == ToolFormat::kHarmony) format.reasoning = {};
  format.tools_in_template = has(chat_template, "tools");
  // Tools that the template does not show are described to the model, with bare JSON as the way to call them.
  if (tool_parser == "auto" && !format.tools_in_template && format.tools != ToolFormat::kHarmony)
    format.tools = ToolFormat::kJson;
  format.mistral_args = has(chat_template, "[ARGS]");
  format.deepseek_fenced = has(chat_template, "```json");
  return format;
}

std::unique_ptr<OutputParser> make_tool_parser(ToolFormat format, std::vector<std::string> names) {
  switch (format) {
    case ToolFormat::kNone: return make_plain_parser();
    case ToolFormat::kHermes: return make_hermes_parser(std::move(names));
    case ToolFormat::kLlama3Json: return make_llama3_json_parser(std::move(names));
    case ToolFormat::kMistral: return make_mistral_parser(std::move(names));
    case ToolFormat::kDeepSeek: return make_deepseek_parser(std::move(names));
    case ToolFormat::kHarmony: return make_harmony_parser(std::move(names));
    case ToolFormat::kPythonic: return make_pythonic_parser(std::move(names));
    case ToolFormat::kJson: return make_json_parser(std::move(names), {});
  }
  return make_plain_parser();
}

}  // namespace quern::tools
