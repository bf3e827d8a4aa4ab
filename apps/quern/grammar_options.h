// Options of `generate` that say what an answer may look like.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern::cli {

struct GrammarArgs {
  std::string json_schema, grammar;  // files
  std::string regex;
  std::vector<std::string> choices;
  bool json_object = false;
};
void add_grammar_options(CLI::App& command, GrammarArgs& args);

struct NamedGrammar {
  GrammarSpec spec;
  std::string name;  // of the option or field, for errors
};

// At most one of them.
Result<std::optional<NamedGrammar>> read_grammar(const GrammarArgs& args);
// One of the fields json_schema, json_object, regex, choice, grammar of a line; nullopt when `key` is none of them.
Result<std::optional<NamedGrammar>> read_grammar_field(const std::string& key, const Json& value);

Result<std::shared_ptr<const Grammar>> compile(Engine& engine, const NamedGrammar& grammar);

}  // namespace quern::cli
