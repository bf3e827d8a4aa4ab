// quern tokenize and detokenize: text to token ids and back, without a model's weights.
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "input.h"
#include "json_lines.h"
#include "model_arg.h"
#include "text_source.h"

namespace quern::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string text;
  std::string file;
  std::string cases;
  bool has_text = false;
  bool no_special = false;
  bool parse_special = false;
  bool json = false;
};

Json decoded_json(const std::string& skipped, const std::string& kept) {
  return {{"decoded", {{"skip_special_tokens", skipped}, {"keep_special_tokens", kept}}}};
}

Result<Json> answer_decode(const Tokenizer& tokenizer, const Json& line) {
  QUERN_ASSIGN(const auto ids, ids_field(line, "ids"));
  QUERN_ASSIGN(const std::string skipped, tokenizer.decode(ids, true));
  QUERN_ASSIGN(const std::string kept, tokenizer.decode(ids, false));
  return decoded_json(skipped, kept);
}

Result<Json> answer_stream(const Tokenizer& tokenizer, const Json& line) {
  QUERN_ASSIGN(const auto ids, ids_field(line, "ids"));
  QUERN_ASSIGN(const bool skip_special, bool_field(line, "skip_special_tokens", true));
  StreamDecoder decoder(tokenizer, skip_special);
  Json deltas = Json::array();
  for (const TokenId id : ids) deltas.push_back(decoder.push(id));
  return Json{{"deltas", deltas}, {"flush", decoder.flush()}};
}

// The cases' answers are the library's, so a start token may be doubled.
Result<Json> answer_texts(const Tokenizer& tokenizer, const Json& line, bool with_types) {
  EncodeOptions options = {.double_bos = true};
  QUERN_ASSIGN(const std::string text, text_field(line, "text"));
  QUERN_ASSIGN(options.add_special, bool_field(line, "add_special_tokens", true));
  QUERN_ASSIGN(options.parse_special, bool_field(line, "parse_special", with_types));
  if (const auto length = line.find("max_length"); length != line.end()) {
    if (!length->is_number_integer()) return invalid_argument("max_length is not a number");
    options.max_length = length->get<int32_t>();
  }
  Encoding encoding;
  if (line.contains("text_pair")) {
    QUERN_ASSIGN(const std::string pair, text_field(line, "text_pair"));
    QUERN_ASSIGN(encoding, tokenizer.encode_pair(text, pair, options, std::nullopt));
  } else {
    QUERN_ASSIGN(encoding, tokenizer.encode(text, options));
  }
  Json answer = {{"ids", encoding.ids}};
  if (with_types) answer["type_ids"] = encoding.type_ids;
  return answer;
}

Result<Json> answer_case(const Tokenizer& tokenizer, const Json& line) {
  QUERN_ASSIGN(const std::string kind, text_field(line, "kind"));
  if (kind == "encode") return answer_texts(tokenizer, line, false);
  if (kind == "pair" && !line.contains("text_pair")) return invalid_argument("a pair without text_pair");
  if (kind == "pair" || kind == "truncate") return answer_texts(tokenizer, line, true);
  if (kind == "decode") return answer_decode(tokenizer, line);
  if (kind == "stream") return answer_stream(tokenizer, line);
  return invalid_argument(fmt::format("kind '{}' is not encode, decode, stream, pair or truncate", kind));
}

Status tokenize(const TokenizeOptions& options) {
  const int sources = int{options.has_text} + int{!options.file.empty()} + int{!options.cases.empty()};
  if (sources != 1) return invalid_argument("one of --text, --file and --cases is needed");
  QUERN_ASSIGN(const auto tokenizer, open_tokenizer(options.model));
  if (!options.cases.empty()) {
    return answer_lines(options.cases, [&](const Json& line) { return answer_case(*tokenizer, line); });
  }
  std::string text = options.text;
  if (!options.has_text) {
    QUERN_ASSIGN(text, read_text(options.file));
  }
  const EncodeOptions how = {.add_special = !options.no_special, .parse_special = options.parse_special};
  const auto encoding = tokenizer->encode(text, how);
  if (!encoding) {
    return std::unexpected(with_name(encoding.error(), "text", options.has_text ? "--text" : input_name(options.file)));
  }
  std::vector<std::string> pieces;
  for (const TokenId id : encoding->ids) pieces.push_back(tokenizer->piece(id));
  if (options.json) return print(dump_json({{"ids", encoding->ids}, {"pieces", pieces}}) + "\n");
  std::string lines;
  for (size_t i = 0; i < pieces.size(); ++i) lines += fmt::format("{}\t{}\n", encoding->ids[i], dump_json(pieces[i]));
  return print(lines);
}

struct DetokenizeOptions {
  std::string model;
  std::string ids;
  bool skip_special = false;
};

Status detokenize(const DetokenizeOptions& options) {
  QUERN_ASSIGN(const auto ids, parse_ids("--ids", options.ids));
  QUERN_ASSIGN(const auto tokenizer, open_tokenizer(options.model));
  const auto text = tokenizer->decode(ids, options.skip_special);
  if (!text) return std::unexpected(prefixed(text.error(), "--ids"));
  return print(*text);
}

constexpr const char* kSourceHelp = "a MODEL, a tokenizer.json or a GGUF without tensors; MODEL is a ";

}  // namespace

void add_tokenize(CLI::App& app, ExitCode& exit) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids");
  const auto options = std::make_shared<TokenizeOptions>();
  command->add_option("MODEL", options->model, std::string(kSourceHelp) + kModelHelp)->required();
  CLI::Option* text = command->add_option("--text", options->text, "the text");
  command->add_option("--file", options->file, "a file with the text; - is stdin");
  command->add_option(
      "--cases", options->cases,
      "a file of JSON lines of kind encode, decode, stream, pair or truncate, - is stdin; one answer a line");
  command->add_flag("--no-special", options->no_special, "add no start, end or separator tokens");
  command->add_flag("--parse-special", options->parse_special,
                    "text that looks like a special token becomes it (default: it stays text)");
  command->add_flag("--json", options->json, "print {\"ids\":[…],\"pieces\":[…]}");
  command->callback([options, text, command, &exit] {
    options->has_text = text->count() > 0;
    finish(tokenize(*options), *command, exit);
  });
}

void add_detokenize(CLI::App& app, ExitCode& exit) {
  CLI::App* command = app.add_subcommand("detokenize", "Token ids to text, without a newline at the end");
  const auto options = std::make_shared<DetokenizeOptions>();
  command->add_option("MODEL", options->model, std::string(kSourceHelp) + kModelHelp)->required();
  command->add_option("--ids", options->ids, "token ids: 1,2,3")->required();
  command->add_flag("--skip-special", options->skip_special, "leave special tokens out");
  command->callback([options, command, &exit] { finish(detokenize(*options), *command, exit); });
}

}  // namespace quern::cli
