#include "server/tools/json_scanner.h"

#include <cstring>

namespace quern::tools {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_number(const std::string& text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin;
  };
  if (at < text.size() && text[at] == '0') {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

}  // namespace

JsonScanner::Step JsonScanner::after_value() {
  if (open_.empty()) return Step::kDone;
  state_ = State::kNext;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::close(char c) {
  if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return Step::kBad;
  open_.pop_back();
  return after_value();
}

JsonScanner::Step JsonScanner::value(char c) {
  if (is_blank(c)) return Step::kMore;
  if (c == ']' && state_ == State::kFirstItem) return close(c);
  if (c == '{' || c == '[') {
    if (open_.size() >= kDepthMax) return Step::kBad;
    open_.push_back(c);
    state_ = c == '{' ? State::kFirstKey : State::kFirstItem;
  } else if (c == '"') {
    state_ = State::kString;
    string_is_key_ = false;
  } else if (c == '-' || is_digit(c)) {
    state_ = State::kNumber;
    number_ = c;
  } else if (c == 't' || c == 'f' || c == 'n') {
    state_ = State::kWord;
    word_left_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
  } else {
    return Step::kBad;
  }
  return Step::kMore;
}

JsonScanner::Step JsonScanner::string(char c, std::string& text) {
  if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == '"') {
    if (!string_is_key_) return after_value();
    state_ = State::kColon;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    const char* escaped = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : nullptr;
    if (escaped == nullptr) return Step::kBad;
    text.pop_back();
    text += escaped;
  }
  return Step::kMore;
}

JsonScanner::Step JsonScanner::feed(char c, std::string& text) {
  if (state_ == State::kNumber && !is_digit(c) && std::strchr("+-.eE", c) == nullptr) {
    if (!is_number(number_)) return Step::kBad;
    if (open_.empty()) return Step::kBefore;
    state_ = State::kNext;
  }
  text += c;
  switch (state_) {
    case State::kValue:
    case State::kFirstItem: return value(c);
    case State::kFirstKey:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::kKey:
      if (is_blank(c)) return Step::kMore;
      if (c != '"') return Step::kBad;
      state_ = State::kString;
      string_is_key_ = true;
      return Step::kMore;
    case State::kColon:
      if (is_blank(c)) return Step::kMore;
      if (c != ':') return Step::kBad;
      state_ = State::kValue;
      return Step::kMore;
    case State::kNext:
      if (is_blank(c)) return Step::kMore;
      if (c == ',') {
        state_ = open_.back() == '{' ? State::kKey : State::kValue;
        return Step::kMore;
      }
      return c == '}' || c == ']' ? close(c) : Step::kBad;
    case State::kString: return string(c, text);
    case State::kEscape:
      if (c == '\0' || std::strchr("\"\\/bfnrtu", c) == nullptr) return Step::kBad;
      state_ = c == 'u' ? State::kHex : State::kString;
      hex_left_ = 4;
      return Step::kMore;
    case State::kHex:
      if (c == '\0' || std::strchr("0123456789abcdefABCDEF", c) == nullptr) return Step::kBad;
      if (--hex_left_ == 0) state_ = State::kString;
      return Step::kMore;
    case State::kWord:
      if (c != *word_left_) return Step::kBad;
      return *++word_left_ == '\0' ? after_value() : Step::kMore;
    case State::kNumber: number_ += c; return number_.size() > 400 ? Step::kBad : Step::kMore;
  }
  return Step::kBad;
}

}  // namespace quern::tools
