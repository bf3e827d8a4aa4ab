// How a chat is prompted and how its answer will be read: the steps between a dialect's request and the engine's that
// concern tools, reasoning and grammars. Shared by all dialects.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "server/api_error.h"
#include "server/model_table.h"
#include "server/tool_list.h"
#include "server/tools/tool_grammar.h"

namespace quern {

struct ChatPlanInput {
  TemplateInput prompt;                   // messages with arguments as objects; tools as OpenAI writes them
  std::string prompt_field = "messages";  // of the client's body
  std::vector<tools::Tool> tools;         // that may be called
  tools::ToolChoice tool_choice = tools::ToolChoice::kNone;
  bool parallel_calls = true;
  std::optional<GrammarSpec> grammar;             // what the content must be
  std::string grammar_param = "response_format";  // who asked for it
  std::optional<int32_t> thinking_budget;         // tokens
  std::string thinking_param = "thinking_token_budget";

  void set_tools(ToolList list);
};

struct ChatPlan {
  std::vector<int32_t> prompt_ids;
  std::optional<GrammarSpec> grammar;  // of the whole answer
  std::string grammar_param;
  ThinkingOptions thinking;
  bool needs_special_tokens = false;  // the parser has to see them
  bool short_call_ids = false;

  std::unique_ptr<tools::OutputParser> make_parser() const;

  tools::ToolFormat format = tools::ToolFormat::kNone;  // of make_parser()
  tools::ReasoningMarks reasoning;
  bool open_in_prompt = false;
  std::vector<std::string> tool_names;
};

ApiResult<ChatPlan> plan_chat(const ServedModel& model, ChatPlanInput input);

}  // namespace quern
