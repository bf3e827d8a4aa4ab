// One JSON value that arrives in pieces: checks it character by character and says where it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::tools {

inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

class JsonScanner {
 public:
  enum class Step : uint8_t {
    kMore,    // the character belongs to the value
    kDone,    // so it does, and the value ends with it
    kBefore,  // the value ended before this character
    kBad,     // no JSON
  };
  // Blanks before the value are part of it. Appends to `text` what the character stands for: itself, but an escape
  // where a model wrote a line break or tab into a string.
  Step feed(char c, std::string& text);

  bool in_escape() const { return state_ == State::kEscape || state_ == State::kHex; }
  bool started() const { return state_ != State::kValue || !open_.empty(); }

 private:
  enum class State : uint8_t {
    kValue,
    kFirstKey,
    kKey,
    kColon,
    kNext,
    kString,
    kEscape,
    kHex,
    kWord,
    kNumber,
    kFirstItem
  };
  static constexpr size_t kDepthMax = 100;

  Step value(char c);
  Step string(char c, std::string& text);
  Step after_value();  // a value inside ended
  Step close(char c);

  State state_ = State::kValue;
  std::vector<char> open_;  // '{' and '['
  bool string_is_key_ = false;
  int hex_left_ = 0;
  const char* word_left_ = nullptr;
  std::string number_;
};

}  // namespace quern::tools
