#include "text_source.h"

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_folder.h"
#include "formats/hf_folder.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

// A file beside a model: never a pipe, which might not end.
Result<std::string> read_inner_file(const fs::path& path) {
  QUERN_ASSIGN(const MappedFile file, MappedFile::open(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Result<fs::path> path_of(const std::string& model) {
  std::error_code ignored;
  if (fs::exists(model, ignored)) return gguf_in_folder(model);
  QUERN_ASSIGN(const fs::path path, resolve_model(model));
  return gguf_in_folder(path);
}

// A folder's tokenizer_config.json, also where there is no model beside it; null when absent.
Result<Json> read_tokenizer_config(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Json();
  QUERN_ASSIGN(const std::string text, read_inner_file(path));
  return parse_json(text, path.string());
}

// A member of a config's list of named templates, or its only one.
std::optional<std::string> named_template(const Json& config, std::string_view wanted) {
  const Json templates = config.is_object() ? config.value("chat_template", Json()) : Json();
  if (templates.is_string() && wanted == "default") return templates.get<std::string>();
  if (!templates.is_array()) return std::nullopt;
  for (const Json& entry : templates) {
    if (!entry.is_object() || entry.value("name", Json()) != Json(wanted)) continue;
    if (entry.contains("template") && entry["template"].is_string()) return entry["template"].get<std::string>();
  }
  return std::nullopt;
}

std::unexpected<Error> no_template(const fs::path& path) {
  return not_found(fmt::format("{}: there is no chat template", path.string()));
}

Result<TemplateSource> template_of_gguf(const fs::path& path, bool with_tools) {
  QUERN_ASSIGN(const auto file, GgufFile::open(path));
  const GgufMetadata& metadata = file->metadata();
  constexpr const char* kDefault = "tokenizer.chat_template";
  constexpr const char* kTools = "tokenizer.chat_template.tool_use";
  const char* key = with_tools && metadata.find(kTools) != nullptr ? kTools : kDefault;
  if (metadata.find(key) == nullptr) return no_template(path);
  TemplateSource source;
  QUERN_ASSIGN(source.text, metadata.get_string(key));
  QUERN_ASSIGN(const auto tokenizer, Tokenizer::from_gguf(metadata, path.string()));
  source.special_tokens = tokenizer->special_tokens();
  return source;
}

Result<TemplateSource> template_of_folder(const fs::path& path, bool with_tools) {
  QUERN_ASSIGN(const Json config, read_tokenizer_config(path));
  TemplateSource source;
  std::error_code ignored;
  auto tools = with_tools ? named_template(config, "tool_use") : std::nullopt;
  auto usual = named_template(config, "default");
  if (tools) {
    source.text = std::move(*tools);
  } else if (const fs::path file = path / "chat_template.jinja"; fs::exists(file, ignored)) {
    QUERN_ASSIGN(source.text, read_inner_file(file));
  } else if (usual) {
    source.text = std::move(*usual);
  } else {
    return no_template(path);
  }
  if (fs::exists(path / "tokenizer.json", ignored)) {
    QUERN_ASSIGN(const auto tokenizer, Tokenizer::from_file(path / "tokenizer.json", config));
    source.special_tokens = tokenizer->special_tokens();
  }
  return source;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& model) {
  QUERN_ASSIGN(const fs::path path, path_of(model));
  if (fs::is_directory(path)) {
    QUERN_ASSIGN(const Json config, read_tokenizer_config(path));
    return Tokenizer::from_file(path / "tokenizer.json", config);
  }
  if (path.extension() == ".json") return Tokenizer::from_file(path, Json());
  QUERN_ASSIGN(const auto file, GgufFile::open(path));
  return Tokenizer::from_gguf(file->metadata(), path.string());
}

Result<TemplateSource> open_template(const std::string& model, bool with_tools) {
  QUERN_ASSIGN(const fs::path path, path_of(model));
  if (fs::is_directory(path)) return template_of_folder(path, with_tools);
  if (path.extension() == ".json") return no_template(path);
  return template_of_gguf(path, with_tools);
}

}  // namespace quern::cli
