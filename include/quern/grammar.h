// What an answer may look like: a schema, a regular expression, a list of choices, a grammar. An engine compiles a spec
// once (Engine::compile_grammar) and applies it to any number of requests.
#pragma once

#include <cstdint>
#include <string>

namespace quern {

enum class GrammarKind : uint8_t {
  kJsonObject,  // any JSON object; no text
  kJsonSchema,  // text: the schema
  kRegex,       // text: a regular expression that the whole answer matches
  kChoice,      // text: a JSON list of strings, one of which is the answer
  kGrammar,     // text: GBNF (rules with ::=, the first is root) or Lark (rules with :, the first is start)
};

struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;
  std::string frame;  // not empty: Lark for the whole answer, in which @body stands for the above

  bool operator==(const GrammarSpec&) const = default;
};

// Compiled for one engine's vocabulary; immutable and thread-safe.
class Grammar {
 public:
  virtual ~Grammar() = default;
};

}  // namespace quern
