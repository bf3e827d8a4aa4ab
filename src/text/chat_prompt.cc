#include "text/chat_prompt.h"

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
    marked.append(text, at, span.begin - at).append(kOpen);
    marked.append(text, span.begin, span.end - span.begin).append(kClose);
    at = span.end;
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

}  // namespace

Result<ChatPrompt> render_chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      const TemplateInput& input) {
  int64_t others = 0;
  int64_t assistants = 0;
  TemplateInput marked = input;
  TemplateInput marked_others = input;
  for (size_t i = 0; i < input.messages.size(); ++i) {
    const bool assistant = from_assistant(input.messages[i]);
    QUERN_TRY(mark(tokenizer, marked.messages[i], assistant ? assistants : others));
    if (!assistant) marked_others.messages[i] = marked.messages[i];
  }
  QUERN_TRY(mark(tokenizer, marked.tools, others));
  QUERN_TRY(mark(tokenizer, marked.documents, others));
  marked_others.tools = marked.tools;
  marked_others.documents = marked.documents;

  QUERN_ASSIGN(TemplateOutput plain, chat_template.render(input));
  if (others + assistants == 0) return ChatPrompt{.text = std::move(plain.text)};
  QUERN_ASSIGN(const TemplateOutput all, chat_template.render(marked));
  ChatPrompt prompt = unmark(all.text);
  // Some templates look for a token in the assistant's own words (to cut its thoughts off, say) and must see it as it
  // is.
  if (prompt.text != plain.text && assistants > 0) {
    QUERN_ASSIGN(const TemplateOutput rest, chat_template.render(marked_others));
    prompt = unmark(rest.text);
  }
  return prompt;
}

}  // namespace quern
