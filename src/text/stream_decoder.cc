// Incremental UTF-8: complete characters go out, a maximal ill-formed part becomes one U+FFFD (the Unicode Standard 15,
// section 3.9, "U+FFFD Substitution of Maximal Subparts"; the WHATWG Encoding Standard's UTF-8 decoder).
#include <cstdint>

#include "text/tokenizer.h"

namespace quern {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  size_t length = 0;  // of the character; 0: no character starts with this byte
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

// Table 3-7 of the Unicode Standard.
Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {.length = 1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte == 0xE0) return {.length = 3, .second_min = 0xA0};
  if (byte == 0xED) return {.length = 3, .second_max = 0x9F};
  if (byte < 0xF0) return {.length = 3};
  if (byte == 0xF0) return {.length = 4, .second_min = 0x90};
  if (byte < 0xF4) return {.length = 4};
  if (byte == 0xF4) return {.length = 4, .second_max = 0x8F};
  return {};
}

// Moves what is decided from the front of `bytes` to `text`; leaves the start of a character that may still be
// finished.
void take_complete(std::string& bytes, std::string& text) {
  size_t begin = 0;
  while (begin < bytes.size()) {
    const Lead lead = lead_of(static_cast<uint8_t>(bytes[begin]));
    if (lead.length == 0) {
      text += kReplacement;
      ++begin;
      continue;
    }
    size_t length = 1;
    while (length < lead.length && begin + length < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[begin + length]);
      const uint8_t min = length == 1 ? lead.second_min : 0x80;
      const uint8_t max = length == 1 ? lead.second_max : 0xBF;
      if (byte < min || byte > max) break;
      ++length;
    }
    if (length < lead.length && begin + length == bytes.size()) break;
    text += length == lead.length ? std::string_view(bytes).substr(begin, length) : kReplacement;
    begin += length;
  }
  bytes.erase(0, begin);
}

}  // namespace

std::string StreamDecoder::push(TokenId id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  pending_ += tokenizer_->text_bytes(id, place_);
  if (place_ == TextPlace::kStart && !tokenizer_->piece(id).empty()) place_ = TextPlace::kRunning;
  std::string text;
  take_complete(pending_, text);
  if (at_start_ && !text.empty()) {
    at_start_ = false;
    if (tokenizer_->strips_leading_space() && text.front() == ' ') text.erase(0, 1);
  }
  return text;
}

std::string StreamDecoder::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  at_start_ = false;
  return std::string(kReplacement);
}

}  // namespace quern
