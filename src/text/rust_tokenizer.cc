#include "text/rust_tokenizer.h"

#include <algorithm>

#include "base/status.h"

namespace quern {

Result<Encoding> RustTokenizer::encode_texts(std::string_view text, const std::string_view* pair,
                                             const EncodeOptions& options, std::optional<int32_t> max_length) const {
  if (max_length && *max_length < 0) {
    return invalid_argument(fmt::format("max_length is {}, less than 0", *max_length));
  }
  std::vector<QuernRange> literal;
  for (const TextRange& range : options.literal) literal.push_back({range.begin, range.end});
  const QuernEncodeOptions wanted = {
      .add_special = options.add_special,
      .parse_special = options.parse_special,
      .has_pair = pair != nullptr,
      .want_type_ids = true,
      .double_start = options.double_bos,
      .max_length = max_length.value_or(-1),
      .literal = literal.data(),
      .num_literal = literal.size(),
  };
  rust::Ids ids;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_tokenizer_encode(handle_.get(), rust::bytes(text),
                                                   rust::bytes(pair == nullptr ? std::string_view() : *pair), &wanted,
                                                   ids.out(), error.out()),
                            error));
  Encoding encoding;
  encoding.ids.assign(ids.ids().begin(), ids.ids().end());
  encoding.type_ids.assign(ids.type_ids().begin(), ids.type_ids().end());
  return encoding;
}

Result<Encoding> RustTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode_texts(text, nullptr, options, options.max_length);
}

Result<Encoding> RustTokenizer::encode_pair(std::string_view text, std::string_view pair, const EncodeOptions& options,
                                            std::optional<int32_t> max_length) const {
  return encode_texts(text, &pair, options, max_length ? max_length : options.max_length);
}

Result<std::vector<TextRange>> RustTokenizer::special_spans(std::string_view text) const {
  rust::Ids bounds;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_tokenizer_special_spans(handle_.get(), rust::bytes(text), bounds.out(), error.out()),
                            error));
  std::vector<TextRange> spans;
  for (size_t i = 0; i + 1 < bounds.ids().size(); i += 2) spans.push_back({bounds.ids()[i], bounds.ids()[i + 1]});
  return spans;
}

Result<std::string> RustTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  // A negative id becomes a large one, which is outside every vocabulary; its message should still show what came.
  const auto negative = std::ranges::find_if(ids, [](TokenId id) { return id < 0; });
  if (negative != ids.end()) {
    return invalid_argument(fmt::format("token id {} is outside the vocabulary of {}", *negative, vocab_size()));
  }
  const std::vector<uint32_t> plain(ids.begin(), ids.end());
  rust::Buffer text;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(
      quern_tokenizer_decode(handle_.get(), plain.data(), plain.size(), skip_special, text.out(), error.out()), error));
  return text.text();
}

int32_t RustTokenizer::vocab_size() const {
  return static_cast<int32_t>(quern_tokenizer_vocab_size(handle_.get()));
}

std::string RustTokenizer::piece(TokenId id) const {
  return rust::Buffer(quern_tokenizer_piece(handle_.get(), static_cast<uint32_t>(id))).text();
}

std::string RustTokenizer::token_bytes(TokenId id) const {
  return rust::Buffer(quern_tokenizer_token_bytes(handle_.get(), static_cast<uint32_t>(id))).text();
}

std::string RustTokenizer::text_bytes(TokenId id, TextPlace place) const {
  return rust::Buffer(
             quern_tokenizer_text_bytes(handle_.get(), static_cast<uint32_t>(id), place == TextPlace::kStart ? 1 : 0))
      .text();
}

bool RustTokenizer::is_special(TokenId id) const {
  return quern_tokenizer_is_special(handle_.get(), static_cast<uint32_t>(id)) != 0;
}

std::optional<TokenId> RustTokenizer::token_id(std::string_view piece) const {
  const int64_t id = quern_tokenizer_token_id(handle_.get(), rust::bytes(piece));
  if (id < 0) return std::nullopt;
  return static_cast<TokenId>(id);
}

bool RustTokenizer::strips_leading_space() const {
  return quern_tokenizer_strips_leading_space(handle_.get()) != 0;
}

bool RustTokenizer::adds_bos() const {
  return quern_tokenizer_start_token(handle_.get()) >= 0;
}

}  // namespace quern
