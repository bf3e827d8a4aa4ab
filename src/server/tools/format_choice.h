// Which format a model writes its calls and its reasoning in: said by an option, or read off its chat template.
#pragma once

#include <string>
#include <string_view>

#include "quern/status.h"
#include "server/tools/output_parser.h"
#include "server/tools/reasoning_parser.h"

namespace quern::tools {

struct OutputFormat {
  ToolFormat tools = ToolFormat::kJson;
  bool tools_in_template = false;  // the template shows tools to the model by itself
  ReasoningMarks reasoning;
  bool mistral_args = false;     // [ARGS] between name and arguments
  bool deepseek_fenced = false;  // arguments in a ```json fence
};

// `tool_parser`: auto, none, hermes, llama3_json, mistral, deepseek_v3, openai (gpt-oss), pythonic, json.
// `reasoning_parser`: auto, none, think (deepseek_r1, qwen3), mistral, openai. kInvalidArgument names what is unknown.
Result<OutputFormat> choose_output_format(std::string_view chat_template, std::string_view tool_parser,
                                          std::string_view reasoning_parser);

}  // namespace quern::tools
