#include "formats/hf_folder.h"

#include <string_view>

#include "base/mapped_file.h"
#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
constexpr JsonLimits kJsonLimits{.depth_max = 64, .bytes_max = 16u << 20};
constexpr size_t kTemplateBytesMax = 4u << 20;

// Text of a file, at most bytes_max of it.
Result<std::string> read_text(const fs::path& path, size_t bytes_max) {
  QUERN_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > bytes_max) {
    return invalid_file(fmt::format("{}: {} bytes are over the limit of {}", path.string(), bytes.size(), bytes_max));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<Json> read_json(const fs::path& path, Json::value_t kind) {
  QUERN_ASSIGN(const std::string text, read_text(path, kJsonLimits.bytes_max));
  auto json = parse_json(text, path.string(), kJsonLimits);
  if (!json) return invalid_file(std::move(json).error().message);
  if (json->type() != kind) {
    return invalid_file(
        fmt::format("{}: not {}", path.string(), kind == Json::value_t::array ? "an array" : "an object"));
  }
  return json;
}

Result<Json> read_optional_json(const fs::path& path, Json::value_t kind) {
  auto json = read_json(path, kind);
  if (!json && json.error().code == ErrorCode::kNotFound) return Json();
  return json;
}

// "chat_template" of tokenizer_config.json: one text, or a list of {"name", "template"} of which "default" is taken.
Result<std::optional<std::string>> template_of_config(const Json& tokenizer_config, const fs::path& path) {
  const auto found = tokenizer_config.find("chat_template");
  if (found == tokenizer_config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array())
    return invalid_file(fmt::format("{}: chat_template is neither a string nor a list", path.string()));
  for (const Json& entry : *found) {
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name == entry.end() || text == entry.end() || !name->is_string() || !text->is_string()) {
      return invalid_file(fmt::format("{}: chat_template has an entry without name and template", path.string()));
    }
    if (name->get_ref<const std::string&>() == "default") return text->get<std::string>();
  }
  return std::nullopt;
}

Result<std::optional<std::string>> read_chat_template(const fs::path& folder, const Json& tokenizer_config) {
  auto text = read_text(folder / "chat_template.jinja", kTemplateBytesMax);
  if (text) return std::optional<std::string>(std::move(*text));
  if (text.error().code != ErrorCode::kNotFound) return std::unexpected(std::move(text).error());
  return template_of_config(tokenizer_config, folder / "tokenizer_config.json");
}

}  // namespace

Result<HfFolder> open_hf_folder(const fs::path& path) {
  HfFolder folder{.path = path};
  QUERN_ASSIGN(folder.config, read_json(path / "config.json", Json::value_t::object));
  QUERN_ASSIGN(folder.generation_config, read_optional_json(path / "generation_config.json", Json::value_t::object));
  QUERN_ASSIGN(folder.tokenizer_config, read_optional_json(path / "tokenizer_config.json", Json::value_t::object));
  QUERN_ASSIGN(folder.modules, read_optional_json(path / "modules.json", Json::value_t::array));
  QUERN_ASSIGN(folder.pooling, read_optional_json(path / "1_Pooling" / "config.json", Json::value_t::object));
  QUERN_ASSIGN(folder.sentence, read_optional_json(path / "sentence_bert_config.json", Json::value_t::object));
  QUERN_ASSIGN(folder.chat_template, read_chat_template(path, folder.tokenizer_config));
  std::error_code ignored;
  if (fs::is_regular_file(path / "tokenizer.json", ignored)) folder.tokenizer_json = path / "tokenizer.json";
  return folder;
}

}  // namespace quern
