#include "server/foreign/llama_server.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/status.h"
#include "server/fields.h"
#include "server/foreign/plain.h"

namespace quern::foreign {
namespace {

constexpr size_t kIdsMax = 1u << 20;

class Tokenize final : public Translation {
 public:
  Tokenize(Json body, int64_t context, bool with_strings)
      : Translation("/tokenize", std::move(body)), context_(context), with_strings_(with_strings) {}

  ApiResult<Json> whole(const Json& answer) override {
    const Json tokens = member(answer, "tokens");
    if (!tokens.is_array()) {
      return std::unexpected(
          ApiError{.status = 502, .message = "the worker's answer has no tokens", .type = "worker_error"});
    }
    Json ids = Json::array(), strings = Json::array();
    for (const Json& token : tokens) {
      ids.push_back(token.is_object() ? member(token, "id") : token);
      if (with_strings_) strings.push_back(text_of(member(token, "piece")));
    }
    return Json{{"count", ids.size()},
                {"max_model_len", context_},
                {"tokens", std::move(ids)},
                {"token_strs", with_strings_ ? std::move(strings) : Json(nullptr)}};
  }

 private:
  // Bytes that are no text come as a list of numbers.
  static std::string text_of(const Json& piece) {
    if (piece.is_string()) return piece.get<std::string>();
    std::string bytes;
    if (!piece.is_array()) return bytes;
    for (const Json& byte : piece) bytes += byte.is_number_integer() ? static_cast<char>(byte.get<int>()) : '?';
    return bytes;
  }

  const int64_t context_;
  const bool with_strings_;
};

class Detokenize final : public Translation {
 public:
  using Translation::Translation;
  ApiResult<Json> whole(const Json& answer) override { return Json{{"prompt", member(answer, "content")}}; }
};

struct Name {
  std::string_view ours, theirs;  // theirs empty: it has nothing like it
};
constexpr auto kNames = std::to_array<Name>({{"repetition_penalty", "repeat_penalty"},
                                             {"thinking_token_budget", "thinking_budget_tokens"},
                                             {"structured_outputs", ""},
                                             {"guided_json", ""},
                                             {"guided_regex", ""},
                                             {"guided_choice", ""},
                                             {"guided_grammar", ""},
                                             {"min_tokens", ""},
                                             {"stop_token_ids", ""},
                                             {"prompt_logprobs", ""},
                                             {"bad_words", ""},
                                             {"allowed_token_ids", ""},
                                             {"use_beam_search", ""},
                                             {"best_of", ""},
                                             {"truncate_prompt_tokens", ""},
                                             {"include_stop_str_in_output", ""},
                                             {"enable_thinking", ""},
                                             // Which adapters answer is what the model's name says.
                                             {"lora", ""}});

// GBNF: one of the strings, to the letter.
ApiResult<std::string> grammar_of(const Json& choices) {
  std::string grammar = "root ::= ";
  if (!choices.is_array() || choices.empty()) return bad_field("choice", "choice: must be a list of strings");
  for (const Json& choice : choices) {
    if (!choice.is_string()) return bad_field("choice", "choice: must be a list of strings");
    if (grammar.back() == '"') grammar += " | ";
    grammar += '"';
    for (const char c : choice.get_ref<const std::string&>()) {
      if (c == '\n') {
        grammar += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') grammar += '\\';
      grammar += c;
    }
    grammar += '"';
  }
  return grammar;
}

// What vLLM's fields say an answer must be, in llama-server's. `kind`: json, choice, grammar, …
ApiResult<void> add_constraint(Json& body, std::string_view kind, const Json& value, const std::string& param) {
  if (value.is_null()) return {};
  if (kind == "json") {
    auto schema = value.is_string() ? parse_json(value.get_ref<const std::string&>(), param) : Result<Json>(value);
    if (!schema || !schema->is_object()) return bad_field(param, param + ": must be a schema");
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "answer"}, {"schema", std::move(*schema)}}}};
  } else if (kind == "json_object") {
    if (value == true) body["response_format"] = {{"type", "json_object"}};
  } else if (kind == "choice") {
    auto grammar = grammar_of(value);
    if (!grammar) return bad_field(param, param + ": must be a list of strings");
    body["grammar"] = std::move(*grammar);
  } else if (kind == "grammar" && value.is_string()) {
    body["grammar"] = value;
  } else {
    return bad_field(param, fmt::format("{}: engine llama.cpp has nothing like it", param));
  }
  return {};
}

// A value that asks for nothing.
bool is_idle(std::string_view name, const Json& value) {
  if (value.is_null() || value == false || value == Json::array()) return true;
  return (name == "min_tokens" && value == 0) || (name == "best_of" && value == 1);
}

ApiResult<void> rename(Json& body, const Name& name) {
  const auto it = body.find(name.ours);
  if (it == body.end()) return {};
  const Json value = *it;
  const std::string param(name.ours);
  body.erase(param);
  if (name.ours == "enable_thinking") {
    if (value.is_boolean()) body["chat_template_kwargs"]["enable_thinking"] = value;
    return {};
  }
  if (is_idle(name.ours, value)) return {};
  if (!name.theirs.empty()) {
    body[std::string(name.theirs)] = value;
    return {};
  }
  if (name.ours.starts_with("guided_")) return add_constraint(body, name.ours.substr(7), value, param);
  if (name.ours != "structured_outputs" || !value.is_object()) {
    return bad_field(param, fmt::format("{}: engine llama.cpp has nothing like it", param));
  }
  for (const auto& item : value.items()) {
    auto added = add_constraint(body, item.key(), item.value(), param + "." + item.key());
    if (!added) return added;
  }
  return {};
}

}  // namespace

ApiResult<std::unique_ptr<Translation>> tokenize_of_llama(const Asked& asked) {
  Fields fields(asked.body);
  fields.accept({"model"});
  if (fields.any("messages") != nullptr) {
    fields.fault("messages", "messages: engine llama.cpp tokenizes a prompt only");
  }
  const auto prompt = fields.string("prompt");
  if (!prompt) fields.fault("prompt", "prompt: is missing");
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  const bool with_strings = fields.boolean("return_token_strs").value_or(false);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  Json body = {{"model", asked.worker_name},
               {"content", *prompt},
               {"add_special", add_special},
               {"parse_special", true},
               {"with_pieces", with_strings}};
  return std::make_unique<Tokenize>(std::move(body), asked.context, with_strings);
}

ApiResult<std::unique_ptr<Translation>> detokenize_of_llama(const Asked& asked) {
  Fields fields(asked.body);
  fields.accept({"model"});
  const auto tokens = fields.integers("tokens", 0, std::numeric_limits<int32_t>::max(), kIdsMax);
  if (!tokens) fields.fault("tokens", "tokens: is missing");
  if (fields.boolean("skip_special_tokens").value_or(false)) {
    fields.fault("skip_special_tokens", "skip_special_tokens: engine llama.cpp shows special tokens");
  }
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  return std::make_unique<Detokenize>("/detokenize", Json{{"model", asked.worker_name}, {"tokens", *tokens}});
}

bool names_strange_field(std::string_view body) {
  return std::ranges::any_of(kNames, [&](const Name& name) { return body.find(name.ours) != std::string_view::npos; });
}

ApiResult<std::unique_ptr<Translation>> fields_of_llama(const Asked& asked) {
  Json body = with_model(asked.body, asked.worker_name);
  if (const auto kwargs = body.find("chat_template_kwargs"); kwargs != body.end() && !kwargs->is_object()) {
    return bad_field("chat_template_kwargs", "chat_template_kwargs: must be an object");
  }
  for (const Name& name : kNames) {
    if (const auto renamed = rename(body, name); !renamed) return std::unexpected(renamed.error());
  }
  return std::make_unique<Moved>(std::string(asked.path), std::move(body));
}

}  // namespace quern::foreign
