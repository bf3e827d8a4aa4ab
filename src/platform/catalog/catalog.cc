#include "platform/catalog/catalog.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/catalog/catalog_text.h"
#include "platform/catalog/registrations.h"

namespace quern {
namespace {

constexpr size_t kModelsMax = 4096;

bool has_name(const CatalogModel& model, std::string_view name) {
  return same_name(model.name, name) ||
         std::ranges::any_of(model.aliases, [&](const std::string& alias) { return same_name(alias, name); });
}

bool is_kind(const CatalogModel& model, std::string_view kind) {
  return same_name(model.kind, kind) || same_name(model_type_of(model.kind), kind);
}

// Everything that words are looked for in, in lower case.
std::string searched_text(const CatalogModel& model) {
  std::string text = model.name + " " + model.kind + " " + model.family + " " + model.description;
  for (const auto& list : {model.aliases, model.abilities, model.languages}) {
    for (const std::string& word : list) text += " " + word;
  }
  return lower_case(text);
}

bool fits(const CatalogModel& model, const CatalogQuery& query) {
  if (!query.kind.empty() && !is_kind(model, query.kind)) return false;
  const auto same_as = [](const std::string& wanted) {
    return [&wanted](const std::string& text) { return same_name(text, wanted); };
  };
  if (!query.ability.empty() && std::ranges::none_of(model.abilities, same_as(query.ability))) return false;
  const auto is_format = [&](const CatalogVariant& variant) { return same_name(variant.format, query.format); };
  if (!query.format.empty() && std::ranges::none_of(model.variants, is_format)) return false;
  const auto is_small = [&](const CatalogSize& size) { return size.parameters_b <= query.parameters_b_max; };
  if (query.parameters_b_max > 0 && !model.sizes.empty() && std::ranges::none_of(model.sizes, is_small)) return false;
  if (query.words.empty()) return true;
  const std::string text = searched_text(model);
  return std::ranges::all_of(query.words,
                             [&](const std::string& word) { return text.find(lower_case(word)) != std::string::npos; });
}

// Smaller is better.
int32_t rank_of(const CatalogModel& model, const CatalogQuery& query) {
  if (query.words.empty()) return 0;
  const std::string word = lower_case(query.words.front());
  if (has_name(model, word)) return 0;
  const std::string name = lower_case(model.name);
  if (name.starts_with(word)) return 1;
  return name.find(word) != std::string::npos ? 2 : 3;
}

const Result<Catalog>& built_in_once() {
  static const Result<Catalog> catalog = [] {
    Result<Catalog> all = Catalog();
    constexpr std::array texts = {catalog_chat,   catalog_code,           catalog_vision,         catalog_embedding,
                                  catalog_rerank, catalog_speech_to_text, catalog_text_to_speech, catalog_image};
    for (const auto text : texts) {
      all = all->joined_with(Catalog::parse(text()));
      if (!all) break;
    }
    return all;
  }();
  return catalog;
}

}  // namespace

std::string_view model_type_of(std::string_view kind) {
  if (kind == "embedding" || kind == "rerank" || kind == "image") return kind;
  if (kind == "transcription" || kind == "speech" || kind == "voice-activity") return "audio";
  return "LLM";
}

std::vector<std::string> CatalogModel::names() const {
  std::vector<std::string> names = {name};
  names.insert(names.end(), aliases.begin(), aliases.end());
  return names;
}

const CatalogSize* CatalogModel::size_of(const CatalogVariant& variant) const {
  for (const CatalogSize& size : sizes) {
    if (!variant.size.empty() && size.name == variant.size) return &size;
  }
  return nullptr;
}

const std::string& CatalogModel::family_of(const CatalogVariant& variant) const {
  const CatalogSize* size = size_of(variant);
  return size != nullptr && !size->family.empty() ? size->family : family;
}

const std::string& CatalogModel::license_of(const CatalogVariant& variant) const {
  const CatalogSize* size = size_of(variant);
  return size != nullptr && !size->license.empty() ? size->license : license;
}

Status Catalog::add(std::shared_ptr<const CatalogModel> model, std::string_view what) {
  for (const std::string& name : model->names()) {
    if (find_model(name) != nullptr) return invalid_file(fmt::format("{}: two models are called {}", what, name));
  }
  models_.push_back(std::move(model));
  return {};
}

Result<Catalog> Catalog::joined_with(Result<Catalog> other) const {
  if (!other) return other;
  Catalog all = *this;
  for (auto& model : other->models_) QUERN_TRY(all.add(std::move(model), "catalogue"));
  return all;
}

Result<Catalog> Catalog::built_in() {
  return built_in_once();
}

Result<Catalog> Catalog::open() {
  QUERN_ASSIGN(Catalog catalog, built_in());
  for (Registration& registration : list_registrations()) {
    // A later version may have a model of this name itself: the user's own stays what it was.
    const auto same = [&](const auto& model) { return same_name(model->name, registration.name); };
    std::erase_if(catalog.models_, same);
    if (registration.fault.empty()) {
      catalog.models_.push_back(std::make_shared<const CatalogModel>(std::move(registration.model)));
    }
  }
  return catalog;
}

Result<Catalog> Catalog::parse(std::string_view text, std::string_view what) {
  QUERN_ASSIGN(const Json json, parse_json(text, what));
  const auto in_catalog = [&](const Error& error) { return invalid_file(fmt::format("{}: {}", what, error.message)); };
  const auto top = JsonFields::of(json, "");
  if (!top) return in_catalog(top.error());
  if (Status status = top->only({"models"}); !status) return in_catalog(status.error());
  const auto list = top->objects("models", kModelsMax);
  if (!list) return in_catalog(list.error());
  Catalog catalog;
  for (const JsonFields& fields : *list) {
    auto model = read_catalog_model(fields, CatalogOrigin::kBuiltIn);
    if (!model) return in_catalog(model.error());
    QUERN_TRY(catalog.add(std::make_shared<const CatalogModel>(std::move(*model)), what));
  }
  return catalog;
}

std::vector<const CatalogModel*> Catalog::models() const {
  std::vector<const CatalogModel*> models;
  for (const auto& model : models_) models.push_back(model.get());
  return models;
}

const CatalogModel* Catalog::find_model(std::string_view name) const {
  for (const auto& model : models_) {
    if (has_name(*model, name)) return model.get();
  }
  return nullptr;
}

Result<Catalog::Entry> Catalog::find(std::string_view name, std::string_view tag) const {
  const CatalogModel* model = find_model(name);
  if (model == nullptr) {
    return not_found(
        fmt::format("{}: not a path, and no model of the catalogue has this name (quern search shows them)", name));
  }
  if (tag.empty()) return Entry{model, &model->variants.front()};
  for (const CatalogVariant& variant : model->variants) {
    if (same_name(variant.tag, tag)) return Entry{model, &variant};
  }
  for (const CatalogVariant& variant : model->variants) {
    if (same_name(variant.size, tag)) return Entry{model, &variant};
  }
  std::string tags;
  for (const CatalogVariant& variant : model->variants) tags += (tags.empty() ? "" : ", ") + variant.tag;
  return not_found(fmt::format("{}:{}: no such variant; there are {}", name, tag, tags));
}

std::vector<const CatalogModel*> Catalog::search(const CatalogQuery& query) const {
  std::vector<const CatalogModel*> found;
  for (const auto& model : models_) {
    if (fits(*model, query)) found.push_back(model.get());
  }
  std::ranges::stable_sort(found, {}, [&](const CatalogModel* model) { return rank_of(*model, query); });
  return found;
}

}  // namespace quern
