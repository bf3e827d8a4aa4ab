#include "text/text_length.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kBytesPerToken = 16;      // more than running text has: shorter texts are encoded at once
constexpr size_t kBytesPerTokenMax = 256;  // longer texts are taken for too long whatever they hold
constexpr size_t kPieceBytes = 32 * 1024;
constexpr int64_t kTokensPerCut = 8;  // that a cut may add, generously

// The first `size` bytes, and what belongs to their last character.
std::string_view whole_characters(std::string_view text, size_t size) {
  size = std::min(size, text.size());
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) ++size;
  return text.substr(0, size);
}

}  // namespace

Status check_text_length(const Tokenizer& tokenizer, std::string_view text, int32_t tokens_max, std::string_view what) {
  if (tokens_max <= 0 || text.size() <= kBytesPerToken * static_cast<size_t>(tokens_max)) return {};
  bool is_longer = text.size() > kBytesPerTokenMax * static_cast<size_t>(tokens_max);
  int64_t tokens = 0;
  while (!text.empty() && !is_longer) {
    const std::string_view piece = whole_characters(text, kPieceBytes);
    QUERN_ASSIGN(const Encoding encoding, tokenizer.encode(piece, {.add_special = false, .parse_special = true}));
    tokens += std::ssize(encoding.ids) - kTokensPerCut;
    is_longer = tokens > tokens_max;
    text.remove_prefix(piece.size());
  }
  if (!is_longer) return {};
  return invalid_argument(
      fmt::format("{}: more tokens than the {} (max_model_len) that the model takes at most", what, tokens_max));
}

std::string_view text_beginning(std::string_view text, int32_t tokens_max) {
  return whole_characters(text,
                          std::max(kPieceBytes, kBytesPerTokenMax * static_cast<size_t>(std::max(tokens_max, 1))));
}

}  // namespace quern
