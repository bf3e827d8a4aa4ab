// A Tokenizer over a handle of the Rust library, and what its source says about special tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/rust.h"
#include "text/tokenizer.h"

namespace quern {

struct TokenizerHandleDeleter {
  void operator()(QuernTokenizer* handle) const { quern_tokenizer_free(handle); }
};
using TokenizerHandle = std::unique_ptr<QuernTokenizer, TokenizerHandleDeleter>;

struct TokenizerFacts {
  std::optional<TokenId> bos_id;
  std::vector<TokenId> eos_ids;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

class RustTokenizer final : public Tokenizer {
 public:
  RustTokenizer(TokenizerHandle handle, TokenizerFacts facts) : handle_(std::move(handle)), facts_(std::move(facts)) {}

  Result<Encoding> encode(std::string_view text, const EncodeOptions& options) const override;
  Result<Encoding> encode_pair(std::string_view text, std::string_view pair, const EncodeOptions& options,
                               std::optional<int32_t> max_length) const override;
  Result<std::string> decode(std::span<const TokenId> ids, bool skip_special) const override;

  int32_t vocab_size() const override;
  std::string piece(TokenId id) const override;
  std::string token_bytes(TokenId id) const override;
  std::string text_bytes(TokenId id, TextPlace place) const override;
  bool is_special(TokenId id) const override;
  Result<std::vector<TextRange>> special_spans(std::string_view text) const override;
  std::optional<TokenId> token_id(std::string_view piece) const override;
  bool strips_leading_space() const override;
  bool adds_bos() const override;

  std::optional<TokenId> bos_id() const override { return facts_.bos_id; }
  std::vector<TokenId> eos_ids() const override { return facts_.eos_ids; }
  const std::vector<std::pair<std::string, std::string>>& special_tokens() const override {
    return facts_.special_tokens;
  }

 private:
  Result<Encoding> encode_texts(std::string_view text, const std::string_view* pair, const EncodeOptions& options,
                                std::optional<int32_t> max_length) const;

  TokenizerHandle handle_;
  TokenizerFacts facts_;
};

}  // namespace quern
