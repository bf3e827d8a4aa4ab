#include "grammar_options.h"

#include "base/status.h"
#include "input.h"

namespace quern::cli {

void add_grammar_options(CLI::App& command, GrammarArgs& args) {
  command.add_flag("--json-object", args.json_object, "the answer is a JSON object");
  command.add_option("--json-schema", args.json_schema, "file of a JSON schema that the answer follows; - is stdin");
  command.add_option("--regex", args.regex, "regular expression that the whole answer matches");
  command.add_option("--choice", args.choices, "one of these is the answer; give it several times")
      ->expected(1)
      ->take_all();
  command.add_option("--grammar", args.grammar, "file of a grammar, GBNF or Lark, that the answer follows; - is stdin");
}

Result<std::optional<NamedGrammar>> read_grammar(const GrammarArgs& args) {
  const int given = args.json_object + !args.json_schema.empty() + !args.regex.empty() + !args.choices.empty() +
                    !args.grammar.empty();
  if (given == 0) return std::nullopt;
  if (given > 1)
    return invalid_argument("generate: give one of --json-object, --json-schema, --regex, --choice, --grammar");
  NamedGrammar result;
  if (args.json_object) {
    result.name = "--json-object";
  } else if (!args.json_schema.empty()) {
    result.name = args.json_schema;
    result.spec.kind = GrammarKind::kJsonSchema;
    QUERN_ASSIGN(result.spec.text, read_text(args.json_schema));
  } else if (!args.regex.empty()) {
    result.name = "--regex";
    result.spec.kind = GrammarKind::kRegex;
    result.spec.text = args.regex;
  } else if (!args.choices.empty()) {
    result.name = "--choice";
    result.spec.kind = GrammarKind::kChoice;
    result.spec.text = dump_json(Json(args.choices));
  } else {
    result.name = args.grammar;
    result.spec.kind = GrammarKind::kGrammar;
    QUERN_ASSIGN(result.spec.text, read_text(args.grammar));
  }
  return result;
}

Result<std::optional<NamedGrammar>> read_grammar_field(const std::string& key, const Json& value) {
  NamedGrammar result{.spec = {}, .name = key};
  if (key == "json_object") {
    if (!value.is_boolean()) return invalid_argument("json_object: not true or false");
    if (!value.get<bool>()) return std::nullopt;
  } else if (key == "json_schema") {
    result.spec.kind = GrammarKind::kJsonSchema;
    result.spec.text = dump_json(value);
  } else if (key == "choice") {
    result.spec.kind = GrammarKind::kChoice;
    result.spec.text = dump_json(value);
  } else if (key == "regex" || key == "grammar") {
    if (!value.is_string()) return invalid_argument(fmt::format("{}: not a string", key));
    result.spec.kind = key == "regex" ? GrammarKind::kRegex : GrammarKind::kGrammar;
    result.spec.text = value.get<std::string>();
  } else {
    return std::nullopt;
  }
  return result;
}

Result<std::shared_ptr<const Grammar>> compile(Engine& engine, const NamedGrammar& grammar) {
  auto compiled = engine.compile_grammar(grammar.spec);
  if (!compiled)
    return make_error(compiled.error().code, fmt::format("{}: {}", grammar.name, compiled.error().message));
  return compiled;
}

}  // namespace quern::cli
