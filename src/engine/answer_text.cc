#include "engine/answer_text.h"

#include <algorithm>

#include "base/check.h"

namespace quern {

namespace {

// Length of the longest end of `text` that is a proper beginning of `stop`.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

}  // namespace

void StopMatcher::push(std::string_view piece, std::string& text) {
  QUERN_CHECK(matched_ == nullptr);
  if (stops_->empty()) {
    text += piece;
    return;
  }
  held_ += piece;
  size_t begin = std::string::npos;
  for (const std::string& stop : *stops_) {
    const size_t at = held_.find(stop);
    if (at < begin) {
      begin = at;
      matched_ = &stop;
    }
  }
  size_t held = 0;
  if (matched_ == nullptr) {
    for (const std::string& stop : *stops_) held = std::max(held, overlap(held_, stop));
    begin = held_.size() - held;
  }
  text.append(held_, 0, begin);
  if (matched_ != nullptr) {
    held_.clear();
  } else {
    held_.erase(0, begin);
  }
}

void StopMatcher::flush(std::string& text) {
  text += held_;
  held_.clear();
}

AnswerText::AnswerText(const Tokenizer* tokenizer, bool skip_special,
                       std::shared_ptr<const std::vector<std::string>> stops)
    : stop_(std::move(stops)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, skip_special);
}

void AnswerText::push(int32_t id, std::string& text) {
  if (decoder_) stop_.push(decoder_->push(id), text);
}

void AnswerText::flush(std::string& text) {
  stop_.flush(text);
}

}  // namespace quern
