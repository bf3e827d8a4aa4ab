// Texts that a grammar allows, drawn at random over the tokens of a real vocabulary: what a model that knows nothing
// would write. Reads one JSON line per grammar ({"kind","text","samples","seed"}), writes one ({"texts","ids"} or
// {"error"}).
#include <array>
#include <cstdio>
#include <iostream>
#include <random>

#include "base/json.h"
#include "base/status.h"
#include "text/grammar.h"

namespace quern {
namespace {

constexpr size_t kTokensMax = 500;
constexpr size_t kPatienceBytes = 60;  // from here on tokens that can bring the end nearer are preferred

struct Vocabulary {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<TokenId> end_ids;
  std::vector<std::string> bytes;
};

bool closes(const std::string& bytes) {
  return bytes.size() == 1 && std::string_view("\"}],:0@.!)<>/").find(bytes[0]) != std::string_view::npos;
}

TokenId draw(const Vocabulary& vocabulary, std::span<const uint32_t> mask, size_t written, std::mt19937_64& random) {
  std::array<std::vector<TokenId>, 256> by_byte;
  std::vector<TokenId> closing;
  std::vector<int> first_bytes;
  bool may_end = false;
  for (size_t id = 0; id < vocabulary.bytes.size(); ++id) {
    if (mask[id / 32] == 0) {
      id |= 31;
      continue;
    }
    if (((mask[id / 32] >> (id % 32)) & 1) == 0) continue;
    const auto token = static_cast<TokenId>(id);
    if (std::ranges::find(vocabulary.end_ids, token) != vocabulary.end_ids.end()) {
      may_end = true;
      continue;
    }
    const std::string& bytes = vocabulary.bytes[id];
    auto& group = by_byte[static_cast<unsigned char>(bytes[0])];
    if (group.empty()) first_bytes.push_back(static_cast<unsigned char>(bytes[0]));
    group.push_back(token);
    if (closes(bytes)) closing.push_back(token);
  }
  const bool hurry = written > kPatienceBytes;
  if (may_end && (first_bytes.empty() || hurry || random() % 4 == 0)) return vocabulary.end_ids.front();
  if (first_bytes.empty()) return -1;
  if (!closing.empty() && random() % (hurry ? 4 : 8) != 0 && (hurry || random() % 4 == 0)) {
    return closing[random() % closing.size()];
  }
  const auto& group = by_byte[static_cast<size_t>(first_bytes[random() % first_bytes.size()])];
  return group[random() % group.size()];
}

// One text with its tokens; nullopt when it did not end in time.
Result<std::optional<Json>> sample(const Vocabulary& vocabulary, const CompiledGrammar& grammar,
                                   std::mt19937_64& random) {
  QUERN_ASSIGN(auto matcher, grammar.matcher());
  std::vector<uint32_t> mask(grammar.mask_words());
  std::string text;
  std::vector<TokenId> ids;
  while (!matcher->is_stopped()) {
    if (ids.size() > kTokensMax) return std::optional<Json>();
    QUERN_TRY(matcher->mask(mask));
    const TokenId id = draw(vocabulary, mask, text.size(), random);
    if (id < 0) return make_error(ErrorCode::kInternal, "nothing may follow " + text);
    const bool is_end = std::ranges::find(vocabulary.end_ids, id) != vocabulary.end_ids.end();
    if (is_end && !matcher->is_accepting()) return make_error(ErrorCode::kInternal, "an end in the middle");
    QUERN_ASSIGN(const bool accepted, matcher->accept(id));
    if (!accepted) return make_error(ErrorCode::kInternal, "a token of the mask is refused after " + text);
    if (random() % 3 == 0 && !is_end) {  // taken back and given again
      QUERN_TRY(matcher->rollback(1));
      std::vector<uint32_t> again(mask.size());
      QUERN_TRY(matcher->mask(again));
      if (again != mask) return make_error(ErrorCode::kInternal, "another mask after a rollback behind " + text);
      QUERN_ASSIGN(const bool second, matcher->accept(id));
      if (!second) return make_error(ErrorCode::kInternal, "a token is refused after a rollback behind " + text);
    }
    ids.push_back(id);
    if (!is_end) text += vocabulary.bytes[static_cast<size_t>(id)];
  }
  return std::optional<Json>({{"text", text}, {"ids", ids}});
}

Result<Json> answer(const Vocabulary& vocabulary, GrammarCompiler& compiler, const Json& line) {
  GrammarSpec spec;
  const auto kind = line.at("kind").get<std::string>();
  spec.kind = kind == "json_object"   ? GrammarKind::kJsonObject
              : kind == "json_schema" ? GrammarKind::kJsonSchema
              : kind == "regex"       ? GrammarKind::kRegex
              : kind == "choice"      ? GrammarKind::kChoice
                                      : GrammarKind::kGrammar;
  const Json& text = line.contains("text") ? line["text"] : Json("");
  spec.text = text.is_string() && kind != "json_schema" ? text.get<std::string>() : dump_json(text);
  if (line.contains("raw")) spec.text = line["raw"].get<std::string>();
  spec.frame = line.value("frame", "");
  QUERN_ASSIGN(const auto grammar, compiler.compile(spec));
  std::mt19937_64 random(line.value("seed", 1));
  Json samples = Json::array();
  int unfinished = 0;
  for (int i = 0; i < line.value("samples", 20); ++i) {
    QUERN_ASSIGN(auto drawn, sample(vocabulary, *grammar, random));
    if (drawn) {
      samples.push_back(std::move(*drawn));
    } else {
      ++unfinished;
    }
  }
  return Json{{"samples", std::move(samples)}, {"unfinished", unfinished}};
}

int run(const char* tokenizer_path, const char* end_piece) {
  auto tokenizer = Tokenizer::from_file(tokenizer_path, Json(nullptr));
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 2;
  }
  Vocabulary vocabulary{.tokenizer = std::move(*tokenizer), .end_ids = {}, .bytes = {}};
  if (const auto id = vocabulary.tokenizer->token_id(end_piece)) vocabulary.end_ids.push_back(*id);
  for (TokenId id = 0; id < vocabulary.tokenizer->vocab_size(); ++id) {
    vocabulary.bytes.push_back(vocabulary.tokenizer->token_bytes(id));
  }
  GrammarCompiler compiler(vocabulary.tokenizer, vocabulary.end_ids);
  for (std::string line; std::getline(std::cin, line);) {
    const auto result = answer(vocabulary, compiler, Json::parse(line));
    const Json out =
        result ? *result : Json{{"error", result.error().message}, {"code", error_code_name(result.error().code)}};
    std::printf("%s\n", dump_json(out).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return quern::run(argv[1], argv[2]);
}
