// Text to token ids and back. The algorithms are Hugging Face `tokenizers`' (text/ffi); this room loads them from a
// tokenizer.json or rebuilds one from GGUF metadata, and adds incremental decoding.
// Thread-safe: encode and decode may be called from any thread at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_value.h"
#include "quern/status.h"

namespace quern {

using TokenId = int32_t;

// Bytes of a text, end not included.
struct TextRange {
  size_t begin = 0, end = 0;
};

struct EncodeOptions {
  bool add_special =
      true;  // whatever the model's post-processor adds: BOS, EOS, [CLS] …; never doubled when the text begins with it
  bool parse_special = false;         // text that looks like a special token becomes that token
  bool double_bos = false;            // as the library does it: a text that begins with BOS gets another one
  std::optional<int32_t> max_length;  // cut on the right, special tokens kept
  // With parse_special: where special tokens stay text all the same, in order and apart.
  std::span<const TextRange> literal;
};
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<int32_t> type_ids;
};

enum class TextPlace : uint8_t { kStart, kRunning };  // before a token: no other of the text, or some

class Tokenizer {
 public:
  // `config`: tokenizer_config.json or null (add_bos_token, special tokens, …).
  static Result<std::unique_ptr<Tokenizer>> from_file(const std::filesystem::path& tokenizer_json, const Json& config);
  // `name`: the file, for messages.
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufMetadata& metadata, std::string_view name);
  virtual ~Tokenizer() = default;

  virtual Result<Encoding> encode(std::string_view text, const EncodeOptions& options) const = 0;
  virtual Result<Encoding> encode_pair(std::string_view text, std::string_view pair, const EncodeOptions& options,
                                       std::optional<int32_t> max_length) const = 0;
  // Whole decoding, as the library does it. kInvalidArgument for an id outside the vocabulary.
  virtual Result<std::string> decode(std::span<const TokenId> ids, bool skip_special) const = 0;

  virtual int32_t vocab_size() const = 0;           // ids are below this
  virtual std::string piece(TokenId id) const = 0;  // the token as the vocabulary writes it; "" when there is none
  virtual std::string token_bytes(
      TokenId id) const = 0;  // the bytes it stands for in running text (rule 1 of tests/golden/tokenizers)
  // What it adds to a decoded text, special tokens included. WordPiece's decoder treats the first token unlike the
  // others.
  virtual std::string text_bytes(TokenId id, TextPlace place) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  // Where special tokens match in `text`.
  virtual Result<std::vector<TextRange>> special_spans(std::string_view text) const = 0;
  virtual std::optional<TokenId> token_id(std::string_view piece) const = 0;
  virtual bool strips_leading_space() const = 0;  // its decoder drops one space at the start of a text
  virtual bool adds_bos() const = 0;

  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::vector<TokenId> eos_ids() const = 0;  // eos, eot, eom as the file names them
  // bos_token, eos_token, pad_token, unk_token …: the variables templates see.
  virtual const std::vector<std::pair<std::string, std::string>>& special_tokens() const = 0;
};

// Turns ids that arrive one by one into text that is valid UTF-8 at each step. Not thread-safe; one per stream.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(&tokenizer), skip_special_(skip_special) {}
  std::string push(TokenId id);  // text that became complete, often empty
  std::string flush();           // one U+FFFD when an unfinished character waits, else empty

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  TextPlace place_ = TextPlace::kStart;
  bool at_start_ = true;  // nothing was told yet
  std::string pending_;   // at most 3 bytes of an unfinished character
};

}  // namespace quern
