// For tests: a tokenizer whose tokens are a given list of strings. Ids 0 … 2 are special.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace quern::fake {

class FakeTokenizer final : public Tokenizer {
 public:
  explicit FakeTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  Result<Encoding> encode(std::string_view, const EncodeOptions&) const override { return unsupported("fake"); }
  Result<Encoding> encode_pair(std::string_view, std::string_view, const EncodeOptions&,
                               std::optional<int32_t>) const override {
    return unsupported("fake");
  }
  Result<std::string> decode(std::span<const TokenId>, bool) const override { return unsupported("fake"); }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::string piece(TokenId id) const override { return pieces_.at(id); }
  std::string token_bytes(TokenId id) const override { return pieces_.at(id); }
  bool is_special(TokenId id) const override { return id < 3; }
  Result<std::vector<TextRange>> special_spans(std::string_view) const override { return std::vector<TextRange>(); }
  std::optional<TokenId> token_id(std::string_view) const override { return std::nullopt; }
  std::string text_bytes(TokenId id, TextPlace) const override { return token_bytes(id); }
  bool strips_leading_space() const override { return false; }
  bool adds_bos() const override { return false; }
  std::optional<TokenId> bos_id() const override { return std::nullopt; }
  std::vector<TokenId> eos_ids() const override { return {2}; }
  const std::vector<std::pair<std::string, std::string>>& special_tokens() const override { return none_; }

 private:
  std::vector<std::string> pieces_;
  std::vector<std::pair<std::string, std::string>> none_;
};

}  // namespace quern::fake
