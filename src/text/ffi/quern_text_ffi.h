// C door of the Rust crate in this folder: Hugging Face `tokenizers` and `minijinja`.
//
// Text is UTF-8 with an explicit length and may contain NUL. Inputs are borrowed for the call. What a call hands out
// (QuernBuffer, QuernIds, handles) belongs to the caller and goes back through the matching free function; freeing an
// empty one is allowed. Handles are immutable after creation: any number of threads may use one at once.
// Every call catches Rust panics and reports them as QUERN_FFI_INTERNAL. On failure `error` holds one line of text.
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
} QuernVocabulary;

QuernFfiStatus quern_tokenizer_from_json(QuernBytes json, QuernTokenizer** tokenizer, QuernBuffer* error);
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
int64_t quern_tokenizer_token_id(const QuernTokenizer* tokenizer, QuernBytes piece);  // -1 when there is none
uint8_t quern_tokenizer_is_special(const QuernTokenizer* tokenizer, uint32_t id);
uint32_t quern_tokenizer_vocab_size(const QuernTokenizer* tokenizer);  // highest id + 1
uint8_t quern_tokenizer_strips_leading_space(const QuernTokenizer* tokenizer);
int64_t quern_tokenizer_start_token(const QuernTokenizer* tokenizer);  // put in front of every text; -1: none

// ---- Chat template ----

typedef struct QuernTemplate QuernTemplate;

typedef struct QuernTemplateLimits {
  uint64_t fuel;  // interpreter steps, and a share of them for every byte or item handled
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

#ifdef __cplusplus
}
#endif
