#include "server/openai/constraints.h"

#include "base/status.h"

namespace quern::openai {
namespace {

// One of the forms in which a schema may stand: an object, a boolean, or their text.
std::optional<std::string> schema_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() || value.is_boolean()) return dump_json(value);
  return std::nullopt;
}

std::optional<GrammarField> read_response_format(Fields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return std::nullopt;
  const auto type = format->find("type");
  const std::string name = type != format->end() && type->is_string() ? type->get<std::string>() : "";
  if (name == "text") return std::nullopt;
  if (name == "json_object")
    return GrammarField{{.kind = GrammarKind::kJsonObject, .text = {}, .frame = {}}, "response_format"};
  if (name != "json_schema") {
    fields.fault("response_format.type", "response_format.type: must be text, json_object or json_schema");
    return std::nullopt;
  }
  const auto wrapper = format->find("json_schema");
  const Json* schema = nullptr;
  if (wrapper != format->end() && wrapper->is_object()) {
    const auto found = wrapper->find("schema");
    if (found != wrapper->end()) schema = &*found;
  }
  if (schema == nullptr || !schema->is_object()) {
    fields.fault("response_format.json_schema", "response_format.json_schema: must have a schema, an object");
    return std::nullopt;
  }
  return GrammarField{{.kind = GrammarKind::kJsonSchema, .text = dump_json(*schema), .frame = {}},
                      "response_format.json_schema.schema"};
}

// json, regex, choice, grammar, json_object: `prefix` and `separator` make the name of the field.
std::optional<GrammarField> read_one(Fields& fields, const Json& value, std::string_view kind, std::string param) {
  const auto wrong = [&](std::string_view wanted) -> std::optional<GrammarField> {
    fields.fault(param, fmt::format("{}: must be {}", param, wanted));
    return std::nullopt;
  };
  GrammarSpec spec;
  if (kind == "json_object") {
    if (!value.is_boolean()) return wrong("true or false");
    if (!value.get<bool>()) return std::nullopt;
  } else if (kind == "json") {
    auto text = schema_text(value);
    if (!text) return wrong("a schema");
    spec = {.kind = GrammarKind::kJsonSchema, .text = std::move(*text), .frame = {}};
  } else if (kind == "choice") {
    if (!value.is_array()) return wrong("a list of strings");
    spec = {.kind = GrammarKind::kChoice, .text = dump_json(value), .frame = {}};
  } else {
    if (!value.is_string()) return wrong("a string");
    spec = {.kind = kind == "regex" ? GrammarKind::kRegex : GrammarKind::kGrammar,
            .text = value.get<std::string>(),
            .frame = {}};
  }
  return GrammarField{std::move(spec), std::move(param)};
}

}  // namespace

std::optional<GrammarField> read_grammar(Fields& fields) {
  std::optional<GrammarField> result = read_response_format(fields);
  const auto take = [&](std::optional<GrammarField> field) {
    if (!field) return;
    if (result) return fields.fault(field->param, fmt::format("{}: not together with {}", field->param, result->param));
    result = std::move(field);
  };
  if (const Json* outer = fields.object("structured_outputs")) {
    Fields inner(*outer);
    for (const std::string_view kind : {"json", "regex", "choice", "grammar", "json_object"}) {
      if (const Json* value = inner.any(kind))
        take(read_one(fields, *value, kind, fmt::format("structured_outputs.{}", kind)));
    }
    for (const std::string_view name :
         {"disable_any_whitespace", "disable_additional_properties", "disable_fallback"}) {
      const Json* value = inner.any(name);
      if (value != nullptr && *value != false) inner.fault(name, fmt::format("{}: only false is supported", name));
    }
    inner.refuse_unknown();
    if (!inner.ok()) {
      const ApiError error = inner.take_error();
      fields.fault("structured_outputs." + error.param, "structured_outputs." + error.message);
    }
  }
  for (const std::string_view kind : {"json", "regex", "choice", "grammar", "json_object"}) {
    const std::string name = fmt::format("guided_{}", kind);
    if (const Json* value = fields.any(name)) take(read_one(fields, *value, kind, name));
  }
  if (const auto backend = fields.string("guided_decoding_backend")) {
    if (*backend != "auto" && !backend->starts_with("guidance")) {
      fields.fault("guided_decoding_backend", "guided_decoding_backend: only auto and guidance are there");
    }
  }
  return result;
}

}  // namespace quern::openai
