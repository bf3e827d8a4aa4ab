// Tokens of one answer to the text its reader may see: whole characters only, and nothing that may still turn out to be
// the beginning of a stop string.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quern {

// Finds stop strings in text that comes in pieces. Of several matches in the text seen so far the one that starts first
// wins.
class StopMatcher {
 public:
  // `stops`: not empty strings. Shared by the n answers of a request.
  explicit StopMatcher(std::shared_ptr<const std::vector<std::string>> stops) : stops_(std::move(stops)) {}

  // Appends to `text` what became final. After a match: everything before it, and matched() is set; push no more then.
  void push(std::string_view piece, std::string& text);
  // Appends what was held back: the answer ended without a match.
  void flush(std::string& text);
  const std::string* matched() const { return matched_; }

 private:
  std::shared_ptr<const std::vector<std::string>> stops_;
  std::string held_;  // shorter than the longest stop string, between calls
  const std::string* matched_ = nullptr;
};

class AnswerText {
 public:
  // tokenizer may be null: then there is no text at all. It must outlive this.
  AnswerText(const Tokenizer* tokenizer, bool skip_special, std::shared_ptr<const std::vector<std::string>> stops);

  // Text that became final with this token.
  void push(int32_t id, std::string& text);
  // The end of the answer. A character that its last token left unfinished is no part of the text.
  void flush(std::string& text);
  const std::string* matched_stop() const { return stop_.matched(); }

 private:
  std::optional<StreamDecoder> decoder_;
  StopMatcher stop_;
};

}  // namespace quern
