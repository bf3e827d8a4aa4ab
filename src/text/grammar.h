// Grammars: what an answer may look like, as masks over the vocabulary. The work is llguidance's (text/ffi); this room
// says which grammars there are, bounds them, and keeps compiled ones.
//
//   GrammarSpec ──compile──▶ CompiledGrammar (immutable, shared) ──matcher()──▶ GrammarMatcher (one per text)
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/grammar.h"
#include "quern/status.h"
#include "text/rust.h"
#include "text/tokenizer.h"

namespace quern {

// One text on its way. Not thread-safe; may move between threads. After an error it is of no use any more.
class GrammarMatcher {
 public:
  // Words of a mask: bit `id % 32` of word `id / 32` is set when the token may come next; an end token where the text
  // may end. After the end only end tokens are set. kInvalidArgument: the grammar became too complex here.
  Status mask(std::span<uint32_t> words);
  // false: the token is not allowed here, nothing changed.
  Result<bool> accept(TokenId id);
  Result<size_t> count_allowed(std::span<const TokenId> ids);  // of them, one after the other; nothing changes
  Status rollback(int32_t num_tokens);                         // takes the last accepted tokens back
  bool is_accepting() const;                                   // the text may end here
  bool is_stopped() const;                                     // nothing may follow
  // Tokens that must follow, as the model's own tokenizer writes them; empty when it has a choice.
  Result<std::vector<TokenId>> forced();
  Result<std::unique_ptr<GrammarMatcher>> copy() const;

 private:
  friend class CompiledGrammar;
  struct Deleter {
    void operator()(QuernMatcher* handle) const { quern_matcher_free(handle); }
  };
  explicit GrammarMatcher(QuernMatcher* handle) : handle_(handle) {}
  std::unique_ptr<QuernMatcher, Deleter> handle_;
};

// Thread-safe. Keeps its tokenizer alive.
class CompiledGrammar final : public Grammar {
 public:
  CompiledGrammar(QuernGrammar* handle, std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)), handle_(handle) {}

  Result<std::unique_ptr<GrammarMatcher>> matcher() const;
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  size_t mask_words() const { return grammar_mask_words(*tokenizer_); }

  static size_t grammar_mask_words(const Tokenizer& tokenizer) {
    return (static_cast<size_t>(tokenizer.vocab_size()) + 31) / 32;
  }

 private:
  struct Deleter {
    void operator()(QuernGrammar* handle) const { quern_grammar_free(handle); }
  };
  std::shared_ptr<const Tokenizer> tokenizer_;  // before the handle, which calls it
  std::unique_ptr<QuernGrammar, Deleter> handle_;
};

struct GrammarLimits {
  size_t text_bytes_max = 256u << 10;
  size_t depth_max = 64;  // of JSON, and of brackets in other texts
  size_t choices_max = 4096;
  uint64_t compile_fuel = 1'000'000;  // about 50,000 a millisecond
  uint64_t step_fuel = 200'000;
  uint64_t step_items = 50'000;
  uint64_t lexer_states = 50'000;  // 1 to 2 KB each, per text
  uint64_t grammar_size = 200'000;
  size_t cache_entries = 64;
};

// Compiles for one vocabulary. Thread-safe; compile() blocks for up to about a second: keep it off threads that serve
// others.
class GrammarCompiler {
 public:
  // `end_ids`: the tokens that end an answer. The vocabulary is read at the first compile().
  GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> end_ids,
                  const GrammarLimits& limits = {});
  ~GrammarCompiler();

  // kInvalidArgument: malformed, or with a keyword that cannot be honoured, which it names; never a weaker grammar.
  // Equal specs give the same grammar while it is among the ones used last.
  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec);

 private:
  struct Entry {
    GrammarSpec spec;
    std::shared_ptr<const CompiledGrammar> grammar;
  };
  struct EnvDeleter {
    void operator()(QuernGrammarEnv* handle) const { quern_grammar_env_free(handle); }
  };

  std::shared_ptr<const CompiledGrammar> find(const GrammarSpec& spec);
  Status prepare_env();
  Result<std::shared_ptr<const CompiledGrammar>> compile_new(const GrammarSpec& spec);

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::vector<TokenId> end_ids_;
  const GrammarLimits limits_;
  std::mutex env_mutex_;
  std::unique_ptr<QuernGrammarEnv, EnvDeleter> env_;  // made under env_mutex_, then immutable
  std::mutex cache_mutex_;
  std::vector<Entry> cache_;  // guarded by cache_mutex_; the one used last stands last
};

}  // namespace quern
