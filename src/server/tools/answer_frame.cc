#include "server/tools/answer_frame.h"

#include <vector>

#include "base/status.h"
#include "text/grammar_parts.h"

namespace quern::tools {
namespace {

bool is_special_mark(const Tokenizer& tokenizer, std::string_view mark) {
  const auto id = tokenizer.token_id(mark);
  return id && tokenizer.is_special(*id);
}

std::vector<std::string_view> tool_marks(ToolFormat format) {
  switch (format) {
    case ToolFormat::kHermes: return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kLlama3Json: return {"<|python_tag|>"};
    case ToolFormat::kMistral: return {"[TOOL_CALLS]", "[ARGS]"};
    case ToolFormat::kDeepSeek: return {"<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"};
    case ToolFormat::kHarmony:
    case ToolFormat::kPythonic:
    case ToolFormat::kJson:
    case ToolFormat::kNone: break;
  }
  return {};
}

// Text up to a mark.
std::string text_until(const Tokenizer& tokenizer, std::string_view mark) {
  if (is_special_mark(tokenizer, mark))
    return fmt::format("thought: TEXT? {}\nTEXT: /(?s:.+)/\n", lark_mark(tokenizer, mark));
  return fmt::format("thought[suffix={}]: /(?s:.*)/\n", lark_string(mark));
}

}  // namespace

std::string lark_mark(const Tokenizer& tokenizer, std::string_view mark) {
  if (is_special_mark(tokenizer, mark)) return fmt::format("<[{}]>", *tokenizer.token_id(mark));
  return lark_string(mark);
}

bool has_special_marks(const Tokenizer& tokenizer, const OutputFormat& format, bool with_tools) {
  if (format.tools == ToolFormat::kHarmony) return true;
  if (!format.reasoning.close.empty() && is_special_mark(tokenizer, format.reasoning.close)) return true;
  if (!with_tools) return false;
  for (const std::string_view mark : tool_marks(format.tools)) {
    if (is_special_mark(tokenizer, mark)) return true;
  }
  return false;
}

std::string reasoning_frame(const Tokenizer& tokenizer, const OutputFormat& format, bool open_in_prompt, bool is_call) {
  const auto mark = [&](std::string_view text) { return lark_mark(tokenizer, text); };
  if (format.tools == ToolFormat::kHarmony) {
    const std::string channel = mark("<|channel|>"), message = mark("<|message|>");
    return fmt::format("start: ({0} \"analysis\" {1} thought {2} \"assistant\")? {3} @body\n{4}", channel, message,
                       mark("<|start|>"), is_call ? "" : channel + " \"final\" " + message,
                       text_until(tokenizer, "<|end|>"));
  }
  if (format.reasoning.close.empty()) return {};
  const std::string head =
      open_in_prompt ? "thought BLANKS?" : fmt::format("({} thought BLANKS?)?", mark(format.reasoning.open));
  return fmt::format("start: {} @body\nBLANKS: /[ \\t\\r\\n]{{1,4}}/\n{}", head,
                     text_until(tokenizer, format.reasoning.close));
}

}  // namespace quern::tools
