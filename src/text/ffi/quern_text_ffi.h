// C door of the Rust crate in this folder: Hugging Face `tokenizers`, `minijinja` and `llguidance`.
//
// Text is UTF-8 with an explicit length and may contain NUL. Inputs are borrowed for the call. What a call hands out
// (QuernBuffer, QuernIds, handles) belongs to the caller and goes back through the matching free function; freeing an
// empty one is allowed. Handles but QuernMatcher are immutable after creation: any number of threads may use one at
// once. Every call catches Rust panics and reports them as QUERN_FFI_INTERNAL. On failure `error` holds one line of
// text.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum QuernFfiStatus {
  QUERN_FFI_OK = 0,
  QUERN_FFI_INVALID_FILE = 1,      // tokenizer.json, vocabulary or template that is malformed
  QUERN_FFI_INVALID_ARGUMENT = 2,  // the call's own value: an id, text that is not UTF-8, what a template raises
  QUERN_FFI_EXHAUSTED = 3,         // a limit of the template
  QUERN_FFI_INTERNAL = 4,
} QuernFfiStatus;

typedef struct QuernBytes {
  const uint8_t* data;
  size_t size;
} QuernBytes;

typedef struct QuernBuffer {
  uint8_t* data;
  size_t size;
} QuernBuffer;
void quern_buffer_free(QuernBuffer buffer);

// ---- Tokenizer ----

typedef struct QuernTokenizer QuernTokenizer;

typedef struct QuernIds {
  uint32_t* ids;
  uint32_t* type_ids;  // as long as ids; null when not asked for
  size_t size;
} QuernIds;
void quern_ids_free(QuernIds ids);

// A vocabulary that is not written as tokenizer.json. `config` is a tokenizer.json whose model has neither vocab nor
// merges.
typedef struct QuernVocabulary {
  QuernBytes config;
  const QuernBytes* tokens;  // the index is the id
  size_t num_tokens;
  const double* scores;  // num_tokens, or null; Unigram's log-probabilities, or the order of merges when there are none
  const uint8_t* in_text;    // num_tokens, or null for all: nonzero when plain text may become the piece
  const QuernBytes* merges;  // "left right", by rank
  size_t num_merges;
  uint8_t by_library;  // as of quern_tokenizer_from_json
} QuernVocabulary;

// `by_library`: nonzero for the steps of Hugging Face's library alone. The ids are the same, the way to them is slower:
// tests compare with it.
QuernFfiStatus quern_tokenizer_from_json(QuernBytes json, uint8_t by_library, QuernTokenizer** tokenizer,
                                         QuernBuffer* error);
QuernFfiStatus quern_tokenizer_from_vocabulary(const QuernVocabulary* vocabulary, QuernTokenizer** tokenizer,
                                               QuernBuffer* error);
// `json`: a post_processor as tokenizer.json writes it. Before the handle is shared between threads.
QuernFfiStatus quern_tokenizer_set_post_processor(QuernTokenizer* tokenizer, QuernBytes json, QuernBuffer* error);
void quern_tokenizer_free(QuernTokenizer* tokenizer);

typedef struct QuernRange {
  size_t begin, end;  // bytes, end not included
} QuernRange;

typedef struct QuernEncodeOptions {
  uint8_t add_special;    // what the post-processor adds
  uint8_t parse_special;  // text that looks like a special token becomes that token
  uint8_t has_pair;
  uint8_t want_type_ids;
  uint8_t double_start;  // keep a start token that the text begins with beside the one that is added
  int64_t max_length;    // < 0: no limit; else ids are cut on the right, the longer text first, special tokens kept
  const QuernRange* literal;  // where special tokens of the (first) text stay text all the same; in order, apart
  size_t num_literal;
} QuernEncodeOptions;

QuernFfiStatus quern_tokenizer_encode(const QuernTokenizer* tokenizer, QuernBytes text, QuernBytes pair,
                                      const QuernEncodeOptions* options, QuernIds* ids, QuernBuffer* error);
// Where special tokens match in the text: begin and end of each, in bytes.
QuernFfiStatus quern_tokenizer_special_spans(const QuernTokenizer* tokenizer, QuernBytes text, QuernIds* bounds,
                                             QuernBuffer* error);
QuernFfiStatus quern_tokenizer_decode(const QuernTokenizer* tokenizer, const uint32_t* ids, size_t num_ids,
                                      uint8_t skip_special, QuernBuffer* text, QuernBuffer* error);

// The token as the vocabulary writes it, and the bytes it stands for in running text; both empty for an unused id.
QuernBuffer quern_tokenizer_piece(const QuernTokenizer* tokenizer, uint32_t id);
QuernBuffer quern_tokenizer_token_bytes(const QuernTokenizer* tokenizer, uint32_t id);
// What a token adds to a decoded text, at its start or behind other tokens.
QuernBuffer quern_tokenizer_text_bytes(const QuernTokenizer* tokenizer, uint32_t id, uint8_t at_start);
int64_t quern_tokenizer_token_id(const QuernTokenizer* tokenizer, QuernBytes piece);  // -1 when there is none
uint8_t quern_tokenizer_is_special(const QuernTokenizer* tokenizer, uint32_t id);
uint32_t quern_tokenizer_vocab_size(const QuernTokenizer* tokenizer);  // highest id + 1
uint8_t quern_tokenizer_strips_leading_space(const QuernTokenizer* tokenizer);
int64_t quern_tokenizer_start_token(const QuernTokenizer* tokenizer);  // put in front of every text; -1: none

// ---- Chat template ----

typedef struct QuernTemplate QuernTemplate;

typedef struct QuernTemplateLimits {
  uint64_t fuel;  // interpreter steps; every 64 bytes of text made take one too, so it bounds memory
  uint64_t output_bytes;
  uint64_t recursion;
  uint64_t milliseconds;  // checked whenever text is written
} QuernTemplateLimits;

QuernFfiStatus quern_template_create(QuernBytes text, const QuernTemplateLimits* limits, QuernTemplate** out,
                                     QuernBuffer* error);
void quern_template_free(QuernTemplate* handle);

// `variables`: a JSON object, the template's globals. `now`: seconds since 1970 in local wall time, for strftime_now.
// `spans`: what {% generation %} covers, pairs of code point offsets [start, end); its type_ids stay null.
QuernFfiStatus quern_template_render(const QuernTemplate* handle, QuernBytes variables, int64_t now, QuernBuffer* text,
                                     QuernIds* spans, QuernBuffer* error);

// ---- Grammar ----

typedef struct QuernGrammarEnv QuernGrammarEnv;  // a vocabulary, prepared
typedef struct QuernGrammar QuernGrammar;        // compiled; may outlive its env, not the context of `encode`
typedef struct QuernMatcher QuernMatcher;        // one text on its way; one thread at a time

typedef struct QuernGrammarVocabulary {
  const QuernBytes* tokens;  // the index is the id: the bytes it stands for, a special token's own text; empty: unused
  const uint8_t* special;    // num_tokens; a special token is never part of text
  size_t num_tokens;
  const uint32_t* end_ids;  // allowed exactly where the grammar may end
  size_t num_end_ids;
  // The tokens the model itself would write for text inside a text, at most `capacity`; SIZE_MAX when that cannot be
  // said. Called by any thread. Null: text that the grammar forces may be written in any tokens.
  size_t (*encode)(void* context, QuernBytes text, uint32_t* ids, size_t capacity);
  void* context;
} QuernGrammarVocabulary;

typedef struct QuernGrammarLimits {
  uint64_t compile_fuel;  // regex nodes built by compiling
  uint64_t step_fuel;     // and by one mask
  uint64_t step_items;    // parser items of one mask
  uint64_t lexer_states;
  uint64_t grammar_size;  // symbols in productions
} QuernGrammarLimits;

typedef enum QuernGrammarKind {
  QUERN_GRAMMAR_JSON_SCHEMA = 0,
  QUERN_GRAMMAR_REGEX = 1,
  QUERN_GRAMMAR_LARK = 2,
} QuernGrammarKind;

typedef struct QuernGrammarPart {
  QuernBytes name;
  int32_t kind;
  QuernBytes text;
} QuernGrammarPart;

QuernFfiStatus quern_grammar_env_create(const QuernGrammarVocabulary* vocabulary, const QuernGrammarLimits* limits,
                                        QuernGrammarEnv** env, QuernBuffer* error);
void quern_grammar_env_free(QuernGrammarEnv* env);

// The first part is the whole; Lark reaches the others as `@name`. `whitespace`: regex of the blanks allowed between
// the parts of JSON. QUERN_FFI_INVALID_ARGUMENT names what cannot be honoured.
QuernFfiStatus quern_grammar_compile(const QuernGrammarEnv* env, const QuernGrammarPart* parts, size_t num_parts,
                                     QuernBytes whitespace, QuernGrammar** grammar, QuernBuffer* error);
void quern_grammar_free(QuernGrammar* grammar);

QuernFfiStatus quern_matcher_create(const QuernGrammar* grammar, QuernMatcher** matcher, QuernBuffer* error);
QuernFfiStatus quern_matcher_copy(const QuernMatcher* matcher, QuernMatcher** copy, QuernBuffer* error);
void quern_matcher_free(QuernMatcher* matcher);

// num_words = ceil(num_tokens / 32), low bits first. QUERN_FFI_EXHAUSTED: a limit; the matcher is of no use any more.
QuernFfiStatus quern_matcher_mask(QuernMatcher* matcher, uint32_t* words, size_t num_words, QuernBuffer* error);
// accepted = 0: the grammar does not allow the token here, nothing changed.
QuernFfiStatus quern_matcher_accept(QuernMatcher* matcher, uint32_t token, uint8_t* accepted, QuernBuffer* error);
// num_allowed: of the tokens, one after the other; nothing changes.
QuernFfiStatus quern_matcher_allowed(QuernMatcher* matcher, const uint32_t* tokens, size_t num_tokens,
                                     size_t* num_allowed, QuernBuffer* error);
QuernFfiStatus quern_matcher_rollback(QuernMatcher* matcher, size_t num_tokens, QuernBuffer* error);
uint8_t quern_matcher_is_accepting(QuernMatcher* matcher);                                      // the text may end here
uint8_t quern_matcher_is_stopped(const QuernMatcher* matcher);                                  // nothing may follow
QuernFfiStatus quern_matcher_forced(QuernMatcher* matcher, QuernIds* ids, QuernBuffer* error);  // what must follow

#ifdef __cplusplus
}
#endif
