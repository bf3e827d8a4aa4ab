// quern show MODEL: what the catalogue and the store know of a model.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "platform/catalog/describe.h"
#include "platform/model_name.h"
#include "platform/pull.h"

namespace quern::cli {
namespace {

struct ShowOptions {
  std::string model;
  bool json = false;
};

// The variant's facts first, then the model's where it says nothing.
Json entry_json(const Catalog::Entry& entry) {
  Json json = catalog_variant_json(*entry.model, *entry.variant);
  const Json model = catalog_model_json(*entry.model);
  for (const auto& item : model.items()) {
    if (!json.contains(item.key())) json[item.key()] = item.value();
  }
  Json tags = Json::array();
  for (const CatalogVariant& variant : entry.model->variants) tags.push_back(variant.tag);
  json["variants"] = std::move(tags);
  return json;
}

Status show(const ShowOptions& options) {
  const std::string& name = options.model;
  QUERN_ASSIGN(const ModelName parsed, parse_model_name(name));
  std::error_code ignored;
  if (parsed.kind == ModelNameKind::kPath && !find_stored(name)) {
    if (!std::filesystem::exists(name, ignored)) return not_found(fmt::format("{}: no such file or folder", name));
    return invalid_argument(fmt::format("{}: is a path, not a pulled model; quern inspect shows what is in it", name));
  }
  Json result = Json::object();
  if (parsed.kind == ModelNameKind::kCatalog) {
    QUERN_ASSIGN(const Catalog catalog, Catalog::open());
    QUERN_ASSIGN(const Catalog::Entry entry, catalog.find(parsed.name, parsed.tag));
    result = entry_json(entry);
  }
  auto stored = find_stored(name);
  if (!stored && result.empty()) return std::unexpected(stored.error());
  result["stored"] = stored ? stored_json(*stored) : Json(nullptr);
  if (options.json) {
    print_json(result);
    return {};
  }
  for (const auto& item : result.items()) {
    const std::string value = item.value().is_string() ? item.value().get<std::string>() : dump_json(item.value());
    std::printf("%-12s %s\n", item.key().c_str(), value.c_str());
  }
  return {};
}

}  // namespace

void add_show(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "what is known of a model");
  command->add_option("MODEL", options->model, "catalogue name or a pulled model")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(show(*options), *command, exit); });
}

}  // namespace quern::cli
