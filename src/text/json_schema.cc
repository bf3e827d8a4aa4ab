#include "text/json_schema.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/status.h"

namespace quern {
namespace {

// Years 0001 to 9999; 29 February in leap years alone; no leap seconds.
constexpr std::string_view kDate =
    "(?:(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(?:"
    "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
constexpr std::string_view kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kEmail =
    "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(?:\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}){0,2}"
    "@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,40}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,20}[a-zA-Z0-9])?){1,3}";

std::string pattern_of(const std::string& format) {
  if (format == "date") return fmt::format("^{}$", kDate);
  if (format == "time") return fmt::format("^{}$", kTime);
  if (format == "date-time") return fmt::format("^{}[tT]{}$", kDate, kTime);
  if (format == "email") return fmt::format("^{}$", kEmail);
  return {};
}

// To ECMA 262, whose patterns a schema has, `[[:alpha:]]` or `[a&&b]` is a class of these characters; the library reads
// classes inside of it and operations on sets.
std::string plain_classes(std::string_view pattern) {
  std::string result;
  bool in_class = false, is_first = false;  // is_first: at what may be a literal `]`
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      result += {c, pattern[++i]};
      is_first = false;
      continue;
    }
    const bool begins = c == '[' && !in_class, ends = c == ']' && in_class && !is_first;
    const bool is_doubled = (c == '&' || c == '~' || c == '-') && i > 0 && pattern[i - 1] == c;
    if (in_class && !begins && (c == '[' || is_doubled)) result += '\\';
    result += c;
    is_first = begins || (is_first && c == '^');
    in_class = begins || (in_class && !ends);
  }
  return result;
}

void spell_out_classes(Json& schema) {
  if (const auto pattern = schema.find("pattern"); pattern != schema.end() && pattern->is_string()) {
    *pattern = plain_classes(pattern->get_ref<const std::string&>());
  }
  const auto properties = schema.find("patternProperties");
  if (properties == schema.end() || !properties->is_object()) return;
  Json spelled = Json::object();
  for (auto& [key, value] : properties->items()) spelled[plain_classes(key)] = std::move(value);
  *properties = std::move(spelled);
}

void spell_out_format(Json& schema) {
  const auto format = schema.find("format");
  if (format == schema.end() || !format->is_string()) return;
  std::string pattern = pattern_of(format->get<std::string>());
  if (pattern.empty()) return;
  schema.erase("format");
  if (!schema.contains("pattern")) {
    schema["pattern"] = std::move(pattern);
    return;
  }
  if (!schema.contains("allOf") || !schema["allOf"].is_array()) schema["allOf"] = Json::array();
  schema["allOf"].push_back({{"type", "string"}, {"pattern", std::move(pattern)}});
}

// Keys that an object may choose freely can come twice, and then count once.
Status check_min_properties(const Json& schema) {
  const auto minimum = schema.find("minProperties");
  if (minimum == schema.end() || !minimum->is_number_unsigned()) return {};
  const auto required = schema.find("required");
  const size_t named = required != schema.end() && required->is_array() ? required->size() : 0;
  if (minimum->get<uint64_t>() <= std::max<size_t>(named, 1)) return {};
  const auto additional = schema.find("additionalProperties");
  const bool closed = additional != schema.end() && additional->is_boolean() && !additional->get<bool>();
  if (closed && !schema.contains("patternProperties")) return {};
  return invalid_argument("minProperties: above 1 it cannot be enforced on an object with free keys");
}

bool is_data(const std::string& key) {
  return key == "const" || key == "enum" || key == "default" || key == "examples";
}

// `is_schema` false: a map from names to schemas (properties, $defs …) or a list of schemas.
Status visit(Json& node, bool is_schema) {
  if (node.is_array()) {
    for (Json& item : node) QUERN_TRY(visit(item, true));
    return {};
  }
  if (!node.is_object()) return {};
  if (is_schema) {
    QUERN_TRY(check_min_properties(node));
    spell_out_classes(node);
    spell_out_format(node);
  }
  for (auto& [key, value] : node.items()) {
    if (is_schema && is_data(key)) continue;
    const bool is_map = is_schema && (key == "properties" || key == "patternProperties" || key == "$defs" ||
                                      key == "definitions" || key == "dependentSchemas");
    QUERN_TRY(visit(value, !is_map));
  }
  return {};
}

// Options of a oneOf must be seen to exclude each other, which a reference hides: the schema itself takes its place,
// once, so that recursion stays recursion.
void open_references(Json& node, const Json& root) {
  if (node.is_array()) {
    for (Json& item : node) open_references(item, root);
  }
  if (!node.is_object()) return;
  for (auto& [key, value] : node.items()) {
    if (is_data(key)) continue;
    if (key != "oneOf" || !value.is_array()) {
      open_references(value, root);
      continue;
    }
    for (Json& option : value) {
      if (!option.is_object() || option.size() != 1 || !option.contains("$ref") || !option["$ref"].is_string())
        continue;
      const auto reference = option["$ref"].get<std::string>();
      // Names with escapes are left to the library, which says what it makes of them.
      if (!reference.starts_with("#/") || reference.find_first_of("~%") != std::string::npos) continue;
      const Json::json_pointer place(reference.substr(1));
      if (root.contains(place)) option = root.at(place);
    }
  }
}

}  // namespace

Result<Json> strict_schema(Json schema) {
  if (schema.is_object()) schema.erase("x-guidance");
  QUERN_TRY(visit(schema, true));
  const Json root = schema;
  open_references(schema, root);
  return schema;
}

}  // namespace quern
