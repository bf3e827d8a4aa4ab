// Grammars and JSON schemas: compiled, then a text is drawn from their masks.
#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/json.h"
#include "seeds.h"
#include "targets.h"
#include "text/grammar.h"

namespace quern::fuzz {
namespace {

constexpr int kWalkTokens = 48;

const std::shared_ptr<const Tokenizer>& tokenizer() {
  static const std::shared_ptr<const Tokenizer> made = [] {
    auto opened = Tokenizer::from_file(golden_model("llama") / "tokenizer.json", Json());
    QUERN_CHECK(opened.has_value());
    return std::shared_ptr<const Tokenizer>(std::move(*opened));
  }();
  return made;
}

TokenId draw(std::span<const uint32_t> mask, std::mt19937& random) {
  std::vector<TokenId> allowed;
  for (TokenId id = 0; id < tokenizer()->vocab_size(); ++id) {
    if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
  }
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
}

// What a mask allows is taken, and taken again after it was given back; a schema's text that ended is JSON.
void draw_text(const CompiledGrammar& grammar, bool is_json) {
  auto matcher = grammar.matcher();
  if (!matcher) return check_refusal(matcher.error());
  std::vector<uint32_t> mask(grammar.mask_words());
  const std::vector<TokenId> ends = tokenizer()->eos_ids();
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < kWalkTokens && !(*matcher)->is_stopped(); ++i) {
    if (const auto status = (*matcher)->mask(mask); !status) return check_refusal(status.error());
    const TokenId id = draw(mask, random);
    QUERN_CHECK(id >= 0);
    const auto accepted = (*matcher)->accept(id);
    if (!accepted) return check_refusal(accepted.error());
    QUERN_CHECK(*accepted);
    if (i % 8 == 0) {
      if (const auto back = (*matcher)->rollback(1); !back) return check_refusal(back.error());
      const auto again = (*matcher)->accept(id);
      if (!again) return check_refusal(again.error());
      QUERN_CHECK(*again);
    }
    if (std::ranges::find(ends, id) == ends.end()) text += tokenizer()->token_bytes(id);
  }
  if (!is_json || !(*matcher)->is_stopped()) return;
  const auto parsed = parse_json(text, "text");
  QUERN_CHECK(parsed.has_value());
}

void drive_grammar(GrammarKind kind, std::string_view text) {
  static GrammarCompiler compiler(tokenizer(), tokenizer()->eos_ids());
  const auto grammar = compiler.compile({.kind = kind, .text = std::string(text), .frame = {}});
  if (!grammar) return check_refusal(grammar.error());
  draw_text(**grammar, kind == GrammarKind::kJsonSchema);
}

}  // namespace

void run_schema(std::string_view schema) {
  drive_grammar(GrammarKind::kJsonSchema, schema);
}

void run_grammar(std::string_view input) {
  constexpr GrammarKind kKinds[] = {GrammarKind::kGrammar, GrammarKind::kRegex, GrammarKind::kChoice};
  if (!input.empty()) drive_grammar(kKinds[static_cast<unsigned char>(input[0]) % std::size(kKinds)], input.substr(1));
}

}  // namespace quern::fuzz
