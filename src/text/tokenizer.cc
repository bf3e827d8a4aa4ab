#include "text/tokenizer.h"

#include "base/mapped_file.h"
#include "base/status.h"
#include "text/gguf_vocabulary.h"
#include "text/rust_tokenizer.h"
#include "text/tokenizer_config.h"

namespace quern {
namespace {

std::unexpected<Error> about(std::string_view what, Error error) {
  return make_error(error.code, fmt::format("{}: {}", what, error.message));
}

std::vector<QuernBytes> views(const std::vector<std::string>& texts) {
  std::vector<QuernBytes> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(rust::bytes(text));
  return result;
}

Result<TokenizerHandle> build(const GgufVocabulary& vocabulary) {
  const std::string config = dump_json(vocabulary.config);
  const auto tokens = views(vocabulary.respelled.empty() ? *vocabulary.tokens : vocabulary.respelled);
  const auto merges = vocabulary.merges == nullptr ? std::vector<QuernBytes>() : views(*vocabulary.merges);
  const QuernVocabulary parts = {
      .config = rust::bytes(config),
      .tokens = tokens.data(),
      .num_tokens = tokens.size(),
      .scores = vocabulary.scores.empty() ? nullptr : vocabulary.scores.data(),
      .in_text = vocabulary.in_text.empty() ? nullptr : vocabulary.in_text.data(),
      .merges = merges.data(),
      .num_merges = merges.size(),
      .by_library = 0,
  };
  QuernTokenizer* handle = nullptr;
  rust::Buffer error;
  if (Status status = rust::to_status(quern_tokenizer_from_vocabulary(&parts, &handle, error.out()), error); !status) {
    return about("tokenizer.ggml", status.error());
  }
  return TokenizerHandle(handle);
}

TokenizerFacts facts_of(const Json& config, const TokenizerHandle& handle) {
  TokenizerFacts facts;
  facts.special_tokens = special_tokens_of(config);
  for (const auto& [name, text] : facts.special_tokens) {
    const int64_t id = quern_tokenizer_token_id(handle.get(), rust::bytes(text));
    if (id < 0) continue;
    if (name == "bos_token") facts.bos_id = static_cast<TokenId>(id);
    if (name == "eos_token") facts.eos_ids.push_back(static_cast<TokenId>(id));
  }
  if (const int64_t id = quern_tokenizer_start_token(handle.get()); !facts.bos_id && id >= 0) {
    facts.bos_id = static_cast<TokenId>(id);
  }
  return facts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_file(const std::filesystem::path& tokenizer_json,
                                                        const Json& config) {
  QUERN_ASSIGN(const MappedFile file, MappedFile::open(tokenizer_json));
  const std::string_view json(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  QuernTokenizer* created = nullptr;
  rust::Buffer error;
  if (Status status = rust::to_status(quern_tokenizer_from_json(rust::bytes(json), 0, &created, error.out()), error);
      !status) {
    return about(tokenizer_json.string(), status.error());
  }
  TokenizerHandle handle(created);
  if (const auto processor = post_processor_override(config, *handle)) {
    const std::string text = dump_json(*processor);
    Status status =
        rust::to_status(quern_tokenizer_set_post_processor(handle.get(), rust::bytes(text), error.out()), error);
    if (!status) return about(tokenizer_json.string(), status.error());
  }
  TokenizerFacts facts = facts_of(config, handle);
  return std::make_unique<RustTokenizer>(std::move(handle), std::move(facts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufMetadata& metadata, std::string_view name) {
  auto vocabulary = read_gguf_vocabulary(metadata);
  if (!vocabulary) return about(name, vocabulary.error());
  auto handle = build(*vocabulary);
  if (!handle) return about(name, handle.error());
  return std::make_unique<RustTokenizer>(std::move(*handle), std::move(vocabulary->facts));
}

}  // namespace quern
