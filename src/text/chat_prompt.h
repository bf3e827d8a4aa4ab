// Messages to prompt text in which only the template's special tokens count: what people wrote between them stays text,
// whatever it looks like. Without this a user could end their own turn and speak as the system.
#pragma once

#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quern {

struct ChatPrompt {
  std::string text;
  std::vector<TextRange> literal;  // special tokens that came with messages, tools or documents: EncodeOptions::literal
};

// Errors: as ChatTemplate::render.
Result<ChatPrompt> render_chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      const TemplateInput& input);

}  // namespace quern
