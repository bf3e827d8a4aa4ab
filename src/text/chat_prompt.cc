#include "text/chat_prompt.h"

#include <algorithm>
#include <string_view>

#include "base/status.h"

namespace quern {
namespace {

// Two code points that no text has ("noncharacters"): they carry the place of a special token through the template.
constexpr std::string_view kOpen = "\uFDD0";
constexpr std::string_view kClose = "\uFDD1";

// Puts marks around every special token in every text of `value`; counts them.
Status mark(const Tokenizer& tokenizer, Json& value, int64_t& count) {
  if (value.is_structured()) {
    for (Json& item : value) QUERN_TRY(mark(tokenizer, item, count));
    return {};
  }
  if (!value.is_string()) return {};
  const auto& text = value.get_ref<const std::string&>();
  QUERN_ASSIGN(const std::vector<TextRange> spans, tokenizer.special_spans(text));
  if (spans.empty()) return {};
  std::string marked;
  size_t at = 0;
  for (const TextRange& span : spans) {
    // Tokens that take the spaces around them may share some.
    const size_t begin = std::max<size_t>(span.begin, at), end = std::max<size_t>(span.end, begin);
    marked.append(text, at, begin - at).append(kOpen);
    marked.append(text, begin, end - begin).append(kClose);
    at = end;
  }
  marked.append(text, at);
  count += static_cast<int64_t>(spans.size());
  value = std::move(marked);
  return {};
}

// Takes the marks out again.
ChatPrompt unmark(std::string_view marked) {
  ChatPrompt prompt;
  while (true) {
    const size_t open = marked.find(kOpen);
    const size_t close = open == std::string_view::npos ? open : marked.find(kClose, open);
    if (close == std::string_view::npos) break;
    prompt.text.append(marked.substr(0, open));
    const std::string_view inside = marked.substr(open + kOpen.size(), close - open - kOpen.size());
    prompt.literal.push_back({prompt.text.size(), prompt.text.size() + inside.size()});
    prompt.text.append(inside);
    marked.remove_prefix(close + kClose.size());
  }
  prompt.text.append(marked);
  return prompt;
}

bool from_assistant(const Json& message) {
  const auto role = message.is_object() ? message.find("role") : message.end();
  return message.is_object() && role != message.end() && *role == "assistant";
}

enum class Speakers : uint8_t { kAll, kAllButAssistant };
struct Marked {
  TemplateInput input;
  int64_t count = 0;  // special tokens found
};

Result<Marked> mark_texts(const Tokenizer& tokenizer, const TemplateInput& input, Speakers speakers) {
  Marked marked = {.input = input};
  for (Json& message : marked.input.messages) {
    if (speakers == Speakers::kAllButAssistant && from_assistant(message)) continue;
    QUERN_TRY(mark(tokenizer, message, marked.count));
  }
  QUERN_TRY(mark(tokenizer, marked.input.tools, marked.count));
  QUERN_TRY(mark(tokenizer, marked.input.documents, marked.count));
  return marked;
}

}  // namespace

Result<ChatPrompt> render_chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      const TemplateInput& input) {
  QUERN_ASSIGN(TemplateOutput plain, chat_template.render(input));
  QUERN_ASSIGN(const Marked all, mark_texts(tokenizer, input, Speakers::kAll));
  if (all.count == 0) return ChatPrompt{.text = std::move(plain.text)};
  QUERN_ASSIGN(const TemplateOutput rendered, chat_template.render(all.input));
  ChatPrompt prompt = unmark(rendered.text);
  if (prompt.text == plain.text) return prompt;
  // Some templates look for a token in the assistant's own words (to cut its thoughts off, say) and must see it as it
  // is.
  QUERN_ASSIGN(const Marked others, mark_texts(tokenizer, input, Speakers::kAllButAssistant));
  if (others.count == all.count) return prompt;
  QUERN_ASSIGN(const TemplateOutput rest, chat_template.render(others.input));
  return unmark(rest.text);
}

}  // namespace quern
