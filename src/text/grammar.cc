#include "text/grammar.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/status.h"
#include "text/grammar_parts.h"

namespace quern {
namespace {

// "Text" for the grammar library is what the model would write in the middle of a text, where some tokenizers put a
// space before the first word: such text cannot be said in tokens, and the library then lets the model choose.
size_t encode_inner(void* context, QuernBytes text, uint32_t* ids, size_t capacity) {
  const auto& tokenizer = *static_cast<const Tokenizer*>(context);
  const std::string_view view(reinterpret_cast<const char*>(text.data), text.size);
  const auto encoding = tokenizer.encode(view, {.add_special = false, .parse_special = false});
  if (!encoding || encoding->ids.size() > capacity) return SIZE_MAX;
  std::ranges::copy(encoding->ids, ids);
  return encoding->ids.size();
}

// Whether the tokens of texts that grammars force spell just these texts.
bool encodes_inner_text(const Tokenizer& tokenizer) {
  for (const std::string_view probe : {"{\"a", "abc", " x", "\n", "\": "}) {
    const auto encoding = tokenizer.encode(probe, {.add_special = false, .parse_special = false});
    if (!encoding) return false;
    std::string spelled;
    for (const TokenId id : encoding->ids) spelled += tokenizer.token_bytes(id);
    if (spelled != probe) return false;
  }
  return true;
}

// Some grammars turn out to be too complex only when they are used: better now than when an answer has begun. Follows
// the first token that is allowed, a few times.
Status try_out(const CompiledGrammar& grammar) {
  constexpr int kSteps = 3;
  QUERN_ASSIGN(const auto matcher, grammar.matcher());
  std::vector<uint32_t> mask(grammar.mask_words());
  for (int step = 0; step < kSteps && !matcher->is_stopped(); ++step) {
    QUERN_TRY(matcher->mask(mask));
    const auto word = std::ranges::find_if(mask, [](uint32_t bits) { return bits != 0; });
    if (word == mask.end()) return {};
    const auto id = static_cast<TokenId>(32 * (word - mask.begin()) + std::countr_zero(*word));
    if (grammar.tokenizer().is_special(id)) return {};
    QUERN_TRY(matcher->accept(id));
  }
  return {};
}

}  // namespace

Status GrammarMatcher::mask(std::span<uint32_t> words) {
  rust::Buffer error;
  return rust::to_status(quern_matcher_mask(handle_.get(), words.data(), words.size(), error.out()), error);
}

Result<bool> GrammarMatcher::accept(TokenId id) {
  uint8_t accepted = 0;
  rust::Buffer error;
  QUERN_TRY(
      rust::to_status(quern_matcher_accept(handle_.get(), static_cast<uint32_t>(id), &accepted, error.out()), error));
  return accepted != 0;
}

Result<size_t> GrammarMatcher::count_allowed(std::span<const TokenId> ids) {
  const std::vector<uint32_t> tokens(ids.begin(), ids.end());
  size_t allowed = 0;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_matcher_allowed(handle_.get(), tokens.data(), tokens.size(), &allowed, error.out()),
                            error));
  return allowed;
}

Status GrammarMatcher::rollback(int32_t num_tokens) {
  QUERN_CHECK(num_tokens >= 0);
  rust::Buffer error;
  return rust::to_status(quern_matcher_rollback(handle_.get(), static_cast<size_t>(num_tokens), error.out()), error);
}

bool GrammarMatcher::is_accepting() const {
  return quern_matcher_is_accepting(handle_.get()) != 0;
}

bool GrammarMatcher::is_stopped() const {
  return quern_matcher_is_stopped(handle_.get()) != 0;
}

Result<std::vector<TokenId>> GrammarMatcher::forced() {
  rust::Ids ids;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_matcher_forced(handle_.get(), ids.out(), error.out()), error));
  return std::vector<TokenId>(ids.ids().begin(), ids.ids().end());
}

Result<std::unique_ptr<GrammarMatcher>> GrammarMatcher::copy() const {
  QuernMatcher* handle = nullptr;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_matcher_copy(handle_.get(), &handle, error.out()), error));
  return std::unique_ptr<GrammarMatcher>(new GrammarMatcher(handle));
}

Result<std::unique_ptr<GrammarMatcher>> CompiledGrammar::matcher() const {
  QuernMatcher* handle = nullptr;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_matcher_create(handle_.get(), &handle, error.out()), error));
  return std::unique_ptr<GrammarMatcher>(new GrammarMatcher(handle));
}

GrammarCompiler::GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> end_ids,
                                 const GrammarLimits& limits)
    : tokenizer_(std::move(tokenizer)), end_ids_(std::move(end_ids)), limits_(limits) {
  QUERN_CHECK(tokenizer_ != nullptr);
}

GrammarCompiler::~GrammarCompiler() = default;

Status GrammarCompiler::prepare_env() {
  const std::lock_guard lock(env_mutex_);
  if (env_) return {};
  const auto vocab_size = static_cast<size_t>(tokenizer_->vocab_size());
  std::vector<std::string> texts(vocab_size);
  std::vector<QuernBytes> tokens(vocab_size);
  std::vector<uint8_t> special(vocab_size);
  for (size_t id = 0; id < vocab_size; ++id) {
    texts[id] = tokenizer_->token_bytes(static_cast<TokenId>(id));
    tokens[id] = rust::bytes(texts[id]);
    special[id] = tokenizer_->is_special(static_cast<TokenId>(id)) ? 1 : 0;
  }
  std::vector<uint32_t> end_ids;
  for (const TokenId id : end_ids_) {
    if (id >= 0 && static_cast<size_t>(id) < vocab_size) end_ids.push_back(static_cast<uint32_t>(id));
  }
  std::ranges::sort(end_ids);
  end_ids.erase(std::unique(end_ids.begin(), end_ids.end()), end_ids.end());
  const QuernGrammarVocabulary vocabulary = {
      .tokens = tokens.data(),
      .special = special.data(),
      .num_tokens = vocab_size,
      .end_ids = end_ids.data(),
      .num_end_ids = end_ids.size(),
      .encode = encodes_inner_text(*tokenizer_) ? encode_inner : nullptr,
      .context = const_cast<Tokenizer*>(tokenizer_.get()),
  };
  const QuernGrammarLimits limits = {.compile_fuel = limits_.compile_fuel,
                                     .step_fuel = limits_.step_fuel,
                                     .step_items = limits_.step_items,
                                     .lexer_states = limits_.lexer_states,
                                     .grammar_size = limits_.grammar_size};
  QuernGrammarEnv* handle = nullptr;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_grammar_env_create(&vocabulary, &limits, &handle, error.out()), error));
  env_.reset(handle);
  return {};
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::find(const GrammarSpec& spec) {
  const auto found = std::ranges::find(cache_, spec, &Entry::spec);
  if (found == cache_.end()) return nullptr;
  std::rotate(found, found + 1, cache_.end());
  return cache_.back().grammar;
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::compile_new(const GrammarSpec& spec) {
  QUERN_ASSIGN(const std::vector<GrammarPart> parts, grammar_parts(spec, limits_));
  QUERN_TRY(prepare_env());
  std::vector<QuernGrammarPart> raw;
  for (const GrammarPart& part : parts) {
    raw.push_back({.name = rust::bytes(part.name), .kind = part.kind, .text = rust::bytes(part.text)});
  }
  QuernGrammar* handle = nullptr;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(
      quern_grammar_compile(env_.get(), raw.data(), raw.size(), rust::bytes(kJsonBlanks), &handle, error.out()),
      error));
  auto grammar = std::make_shared<const CompiledGrammar>(handle, tokenizer_);
  QUERN_TRY(try_out(*grammar));
  return grammar;
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::compile(const GrammarSpec& spec) {
  {
    const std::lock_guard lock(cache_mutex_);
    if (auto grammar = find(spec)) return grammar;
  }
  QUERN_ASSIGN(auto grammar, compile_new(spec));
  const std::lock_guard lock(cache_mutex_);
  if (auto other = find(spec)) return other;  // somebody else was as quick
  if (cache_.size() >= limits_.cache_entries) cache_.erase(cache_.begin());
  cache_.push_back({spec, grammar});
  return grammar;
}

}  // namespace quern
