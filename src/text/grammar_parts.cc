#include "text/grammar_parts.h"

#include <algorithm>

#include "base/json.h"
#include "base/status.h"
#include "text/gbnf.h"
#include "text/json_schema.h"

namespace quern {
namespace {

Status check_text(const GrammarSpec& spec, const GrammarLimits& limits) {
  if (spec.text.size() > limits.text_bytes_max) {
    return invalid_argument(
        fmt::format("a text of {} bytes is over the limit of {}", spec.text.size(), limits.text_bytes_max));
  }
  if (spec.text.find('\0') != std::string::npos) return invalid_argument("the text contains NUL");
  // Deep nesting is refused before any recursive parser sees it. Escapes and strings are not looked at, so this counts
  // a bracket inside a string as well.
  size_t depth = 0, deepest = 0;
  for (const char c : spec.text) {
    if (c == '(' || c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
  }
  if (deepest > limits.depth_max * 2) {
    return invalid_argument(fmt::format("nested {} deep, over the limit of {}", deepest, limits.depth_max * 2));
  }
  return {};
}

Result<GrammarPart> schema_part(const GrammarSpec& spec, const GrammarLimits& limits) {
  const JsonLimits json_limits = {.depth_max = limits.depth_max, .bytes_max = limits.text_bytes_max};
  QUERN_ASSIGN(Json schema, parse_json(spec.text, "schema", json_limits));
  QUERN_ASSIGN(schema, strict_schema(std::move(schema)));
  return GrammarPart{"body", QUERN_GRAMMAR_JSON_SCHEMA, dump_json(schema)};
}

// The whole answer matches, so the anchors that many write around it say nothing new.
std::string without_outer_anchors(std::string text) {
  if (text.find('|') != std::string::npos) return text;  // they may belong to one branch
  if (text.starts_with('^')) text.erase(0, 1);
  size_t backslashes = 0;
  if (text.ends_with('$')) {
    while (backslashes + 1 < text.size() && text[text.size() - 2 - backslashes] == '\\') ++backslashes;
    if (backslashes % 2 == 0) text.pop_back();
  }
  return text;
}

// \d and \w are what most mean by them, digits and words of ASCII: a part of what they are in any other reading.
std::string with_ascii_classes(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char next = text[++i];
    if (next == 'd') {
      result += "[0-9]";
    } else if (next == 'w') {
      result += "[0-9A-Za-z_]";
    } else {
      result += {'\\', next};
    }
  }
  return result;
}

Result<GrammarPart> choice_part(const GrammarSpec& spec, const GrammarLimits& limits) {
  QUERN_ASSIGN(const Json choices, parse_json(spec.text, "choice", {.depth_max = 2}));
  if (!choices.is_array() || choices.empty()) return invalid_argument("choice: must be a list of strings, not empty");
  if (choices.size() > limits.choices_max) {
    return invalid_argument(fmt::format("choice: {} are more than {}", choices.size(), limits.choices_max));
  }
  std::string lark = "start: CHOICE\nCHOICE: ";
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string() || choices[i].get_ref<const std::string&>().empty()) {
      return invalid_argument("choice: every entry must be a string, not empty");
    }
    if (i > 0) lark += " | ";
    lark += lark_string(choices[i].get_ref<const std::string&>());
  }
  return GrammarPart{"body", QUERN_GRAMMAR_LARK, lark + "\n"};
}

Result<GrammarPart> body_part(const GrammarSpec& spec, const GrammarLimits& limits) {
  switch (spec.kind) {
    case GrammarKind::kJsonObject: return GrammarPart{"body", QUERN_GRAMMAR_JSON_SCHEMA, R"({"type":"object"})"};
    case GrammarKind::kJsonSchema: return schema_part(spec, limits);
    case GrammarKind::kRegex:
      if (spec.text.empty()) return invalid_argument("regex: is empty");
      return GrammarPart{"body", QUERN_GRAMMAR_REGEX, with_ascii_classes(without_outer_anchors(spec.text))};
    case GrammarKind::kChoice: return choice_part(spec, limits);
    case GrammarKind::kGrammar: break;
  }
  if (spec.text.find_first_not_of(" \t\r\n") == std::string::npos) return invalid_argument("grammar: is empty");
  if (!looks_like_gbnf(spec.text)) return GrammarPart{"body", QUERN_GRAMMAR_LARK, spec.text};
  QUERN_ASSIGN(std::string lark, gbnf_to_lark(spec.text));
  return GrammarPart{"body", QUERN_GRAMMAR_LARK, std::move(lark)};
}

}  // namespace

std::string lark_string(std::string_view text) {
  // JSON's escapes are Lark's, but for DEL, which Lark refuses as it is.
  std::string quoted = dump_json(Json(std::string(text)));
  for (size_t at = 0; (at = quoted.find('\x7f', at)) != std::string::npos;) quoted.replace(at, 1, "\\u007f");
  return quoted;
}

Result<std::vector<GrammarPart>> grammar_parts(const GrammarSpec& spec, const GrammarLimits& limits) {
  QUERN_TRY(check_text(spec, limits));
  QUERN_ASSIGN(GrammarPart body, body_part(spec, limits));
  std::vector<GrammarPart> parts;
  if (!spec.frame.empty()) parts.push_back({"frame", QUERN_GRAMMAR_LARK, spec.frame});
  parts.push_back(std::move(body));
  return parts;
}

}  // namespace quern
