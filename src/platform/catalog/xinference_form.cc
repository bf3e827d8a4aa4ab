#include "platform/catalog/xinference_form.h"

#include <algorithm>
#include <filesystem>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kTokensMax = int64_t{1} << 30;
constexpr size_t kTemplateMax = 256 << 10;

// model_format, as Xinference calls it.
struct Format {
  std::string_view name;    // there
  std::string_view format;  // here
  std::string_view scheme;
};
constexpr Format kTheirFormats[] = {{"pytorch", "safetensors", ""}, {"ggufv2", "gguf", ""},
                                    {"awq", "safetensors", "awq"},  {"gptq", "safetensors", "gptq"},
                                    {"fp8", "safetensors", "fp8"},  {"fp4", "safetensors", "fp4"},
                                    {"bnb", "safetensors", "bnb"},  {"mlx", "mlx", ""}};

bool has_one_of(const std::vector<std::string>& list, std::initializer_list<std::string_view> wanted) {
  return std::ranges::any_of(
      list, [&](const std::string& text) { return std::ranges::find(wanted, std::string_view(text)) != wanted.end(); });
}

// 7, 1.8, "7", "1_8", "1.8": in billions. Empty text: absent.
Result<std::string> read_size(const JsonFields& fields) {
  constexpr const char* kKey = "model_size_in_billions";
  if (!fields.has(kKey)) return std::string();
  std::string text;
  if (fields.json().at(kKey).is_string()) {
    QUERN_ASSIGN(text, fields.text(kKey, 16));
    std::ranges::replace(text, '_', '.');
  } else {
    QUERN_ASSIGN(const double billions, fields.number_or(kKey, 0, 0.0001, 1e6));
    text = fmt::format("{}", billions);
  }
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos &&
                     std::ranges::count(text, '.') <= 1 && text.front() != '.';
  if (!plain) return fields.refuse(kKey, "must be a number");
  return text;
}

// Where the files of one specification are; `file` may hold {quantization}.
Result<std::vector<ModelFileSource>> read_sources(const JsonFields& fields, const std::string& file) {
  std::vector<ModelFileSource> sources;
  if (fields.has("model_uri")) {
    QUERN_ASSIGN(const std::string uri, fields.text("model_uri", 4096));
    if (uri.starts_with("https://") || uri.starts_with("http://")) {
      QUERN_ASSIGN(ModelFileSource source, url_source(fields, "model_uri", uri));
      sources.push_back(std::move(source));
    } else {
      const std::string path = uri.starts_with("file://") ? uri.substr(7) : uri;
      if (path.find("://") != std::string::npos) return fields.refuse("model_uri", "only file, https or a path");
      const std::string whole = file.empty() || path.ends_with(".gguf") ? path : (fs::path(path) / file).string();
      QUERN_ASSIGN(ModelFileSource source, path_source(fields, "model_uri", whole));
      sources.push_back(std::move(source));
    }
  }
  if (!fields.has("model_id")) return sources;
  SourcePart part;
  QUERN_ASSIGN(part.name, fields.text("model_id", 200));
  QUERN_ASSIGN(part.version, fields.text_or("model_revision", "main"));
  QUERN_ASSIGN(const std::string hub, fields.text_or("model_hub", "huggingface", 32));
  part.path = file;
  if (hub != "huggingface" && hub != "modelscope")
    return fields.refuse("model_hub", "must be huggingface or modelscope");
  const SourceKind kind = hub == "modelscope" ? SourceKind::kModelScope : SourceKind::kHf;
  QUERN_ASSIGN(ModelFileSource source, hub_source(fields, "model_id", kind, std::move(part)));
  sources.push_back(std::move(source));
  return sources;
}

struct Spec {
  Format format;
  std::string size;  // "1.8b"
};

// One variant for each quantisation that `fields` (a specification, or one hub of its model_src) names.
Status add_variants(const JsonFields& fields, const Spec& spec, std::string_view hub, CatalogModel& model) {
  QUERN_ASSIGN(std::vector<std::string> quantizations, fields.texts_or_none("quantizations", 64, 64));
  QUERN_ASSIGN(const std::string single, fields.text_or("quantization", "", 64));
  if (quantizations.empty()) quantizations.push_back(single);
  QUERN_ASSIGN(const std::string file, fields.text_or("model_file_name_template", ""));
  QUERN_ASSIGN(const auto projectors, fields.texts_or_none("multimodal_projectors", 16));
  for (const std::string& quantization : quantizations) {
    const bool plain = quantization.empty() || quantization == "none";
    CatalogVariant variant{.size = spec.size, .format = std::string(spec.format.format), .projectors = projectors};
    variant.quantization = std::string(spec.format.scheme);
    if (!plain) variant.quantization += (variant.quantization.empty() ? "" : "-") + lower_case(quantization);
    variant.tag = spec.size;
    for (const std::string& part : {std::string(spec.format.format == "mlx" ? "mlx" : ""), variant.quantization}) {
      if (!part.empty()) variant.tag += (variant.tag.empty() ? "" : "-") + part;
    }
    if (variant.tag.empty()) variant.tag = "default";
    QUERN_ASSIGN(variant.sources, read_sources(fields, with_quantization(file, quantization)));
    for (ModelFileSource& source : variant.sources) {
      SourcePart& part = source.parts.front();
      part.name = with_quantization(part.name, quantization);
      if (source.kind == SourceKind::kHf && hub == "modelscope") source.kind = SourceKind::kModelScope;
      if (source.kind == SourceKind::kUrl) variant.file = part.path;
    }
    const auto same = [&](const CatalogVariant& other) { return same_name(other.tag, variant.tag); };
    if (const auto it = std::ranges::find_if(model.variants, same); it != model.variants.end()) {
      std::ranges::move(variant.sources, std::back_inserter(it->sources));
    } else {
      model.variants.push_back(std::move(variant));
    }
  }
  return {};
}

// The hubs of model_src, or the flat fields beside it.
Status read_places(const JsonFields& fields, const Spec& spec, CatalogModel& model) {
  if (fields.has("model_id") || fields.has("model_uri")) QUERN_TRY(add_variants(fields, spec, "", model));
  if (!fields.has("model_src")) return {};
  QUERN_ASSIGN(const JsonFields hubs, fields.object("model_src"));
  // Of the others there is no way to pull from here; a document that has none of these is refused for want of a source.
  for (const char* hub : {"huggingface", "modelscope"}) {
    if (!hubs.has(hub)) continue;
    QUERN_ASSIGN(const JsonFields one, hubs.object(hub));
    QUERN_TRY(add_variants(one, spec, hub, model));
  }
  return {};
}

Status read_spec(const JsonFields& fields, CatalogModel& model) {
  QUERN_ASSIGN(const std::string name, fields.text_or("model_format", "pytorch", 32));
  const auto* format = std::ranges::find(kTheirFormats, std::string_view(name), &Format::name);
  if (format == std::end(kTheirFormats)) {
    return fields.refuse("model_format", fmt::format("'{}' is not known here", name));
  }
  Spec spec{.format = *format, .size = ""};
  QUERN_ASSIGN(const std::string billions, read_size(fields));
  if (!billions.empty()) {
    spec.size = billions + "b";
    const auto has_size = [&](const CatalogSize& size) { return size.name == spec.size; };
    if (std::ranges::none_of(model.sizes, has_size)) {
      model.sizes.push_back({.name = spec.size, .parameters_b = std::strtod(billions.c_str(), nullptr)});
    }
  }
  return read_places(fields, spec, model);
}

std::string kind_of(std::string_view type, const std::vector<std::string>& abilities) {
  if (type == "audio") return has_one_of(abilities, {"text2audio", "text2music"}) ? "speech" : "transcription";
  if (type != "LLM") return std::string(type);
  if (has_one_of(abilities, {"vision", "audio", "omni"})) return "vision";
  return has_one_of(abilities, {"chat"}) ? "chat" : "completion";
}

// Our words for Xinference's abilities; others stay.
std::string ability_of(const std::string& ability) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"generate", "completion"},
                                                                      {"audio2text", "transcribe"},
                                                                      {"text2audio", "speak"},
                                                                      {"text2image", "draw"},
                                                                      {"image2image", "edit"},
                                                                      {"inpainting", "inpaint"},
                                                                      {"text2audio_voice_cloning", "clone"}};
  for (const auto& [theirs, ours] : kWords) {
    if (ability == theirs) return std::string(ours);
  }
  return ability;
}

Status read_facts(const JsonFields& fields, std::string_view type, CatalogModel& model) {
  QUERN_ASSIGN(model.name, fields.text("model_name", 100));
  if (!is_model_name(model.name)) {
    return fields.refuse("model_name", "must be at most 100 letters, digits, - _ or ., the first a letter or digit");
  }
  QUERN_ASSIGN(model.description, fields.text_or("model_description", "", 16384));
  const char* context = type == "embedding" || type == "rerank" ? "max_tokens" : "context_length";
  QUERN_ASSIGN(model.context, fields.integer_or(context, type == "LLM" ? 2048 : 0, 1, kTokensMax));
  QUERN_ASSIGN(const int64_t dimensions, fields.integer_or("dimensions", 0, 1, 1 << 20));
  model.dimensions = static_cast<int32_t>(dimensions);
  QUERN_ASSIGN(model.languages, fields.texts_or_none(type == "LLM" ? "model_lang" : "language", kListMax, 64));
  QUERN_ASSIGN(const std::vector<std::string> abilities, fields.texts_or_none("model_ability", 32, 64));
  model.kind = kind_of(type, abilities);
  for (const std::string& ability : abilities) model.abilities.push_back(ability_of(ability));
  if (type == "embedding") model.abilities = {"embed"};
  if (type == "rerank") model.abilities = {"rerank"};
  QUERN_ASSIGN(model.chat_template, fields.text_or("chat_template", "", kTemplateMax));
  QUERN_ASSIGN(model.reasoning_start, fields.text_or("reasoning_start_tag", "", 64));
  QUERN_ASSIGN(model.reasoning_end, fields.text_or("reasoning_end_tag", "", 64));
  return {};
}

Status borrow_from_family(const JsonFields& fields, const Catalog& built_in, CatalogModel& model) {
  QUERN_ASSIGN(const std::string family, fields.text_or("model_family", "", 100));
  model.family = family.empty() || family == "other" ? "unknown" : family;
  const CatalogModel* lender = built_in.find_model(family);
  if (lender == nullptr) return {};
  model.family = lender->family;
  model.tool_format = lender->tool_format;
  if (model.chat_template.empty()) model.chat_template = lender->chat_template;
  if (model.reasoning_start.empty()) {
    model.reasoning_start = lender->reasoning_start;
    model.reasoning_end = lender->reasoning_end;
  }
  // Its shape, for estimates.
  for (CatalogSize& size : model.sizes) {
    for (const CatalogSize& known : lender->sizes) {
      if (known.name == size.name) size = known;
    }
  }
  return {};
}

}  // namespace

bool is_xinference_form(const JsonFields& fields) {
  return fields.has("model_name") && !fields.has("name");
}

Result<std::string_view> type_of_xinference_form(const JsonFields& fields) {
  QUERN_ASSIGN(const std::vector<std::string> abilities, fields.texts_or_none("model_ability", 32, 64));
  if (has_one_of(abilities, {"text2image", "image2image", "inpainting", "ocr"}) || fields.has("controlnet")) {
    return "image";
  }
  if (has_one_of(abilities, {"audio2text", "text2audio"}) || fields.has("multilingual")) return "audio";
  if (fields.has("dimensions")) return "embedding";
  if (fields.has("model_lang") || fields.has("context_length") || has_one_of(abilities, {"chat", "generate"})) {
    return "LLM";
  }
  if (fields.has("max_tokens") || fields.has("type")) return "rerank";
  return fields.refuse("model_type", "the fields do not tell which; say LLM, embedding, rerank, image or audio");
}

Result<CatalogModel> read_xinference_form(const JsonFields& fields, std::string_view type, const Catalog& built_in) {
  CatalogModel model;
  model.custom = true;
  QUERN_TRY(read_facts(fields, type, model));
  QUERN_ASSIGN(const auto specs, fields.objects("model_specs", 256));
  for (const JsonFields& spec : specs) QUERN_TRY(read_spec(spec, model));
  if (specs.empty()) {
    const Spec flat{.format = kTheirFormats[0], .size = ""};
    QUERN_TRY(read_places(fields, flat, model));
  }
  QUERN_TRY(borrow_from_family(fields, built_in, model));
  if (model.variants.empty())
    return fields.refuse("model_specs", "has no model_id, model_uri or model_src of a known hub");
  QUERN_TRY(check_catalog_model(fields, model));
  return model;
}

}  // namespace quern
