// quern engines NAME: which engines can run a model of the catalogue here, and why not.
#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "platform/catalog/describe.h"
#include "platform/model_name.h"

namespace quern::cli {
namespace {

struct EnginesOptions {
  std::string model;
  bool json = false;
};

void print_check(const EngineCheck& check) {
  const std::string version = check.version.empty() ? "" : fmt::format("  [{}]", check.version);
  if (!check.runs()) {
    std::printf("%-10s no   %s%s\n", check.engine.c_str(), check.reason.c_str(), version.c_str());
    return;
  }
  std::string tags, note;
  for (const VariantCheck& variant : check.variants) {
    if (variant.reason.empty()) tags += (tags.empty() ? "" : ", ") + variant.variant->tag;
    if (variant.reason.empty() && note.empty()) note = variant.note;
  }
  std::printf("%-10s yes  %s%s%s\n", check.engine.c_str(), tags.c_str(),
              note.empty() ? "" : ("  (" + note + ")").c_str(), version.c_str());
  for (const VariantCheck& variant : check.variants) {
    if (!variant.reason.empty())
      std::printf("           not %s: %s\n", variant.variant->tag.c_str(), variant.reason.c_str());
  }
}

Status engines(const EnginesOptions& options) {
  QUERN_ASSIGN(const ModelName name, parse_model_name(options.model));
  if (name.kind != ModelNameKind::kCatalog) {
    return invalid_argument(
        fmt::format("{}: must be a name of the catalogue; quern register gives a path or URL one", options.model));
  }
  QUERN_ASSIGN(const Catalog catalog, Catalog::open());
  QUERN_ASSIGN(const Catalog::Entry entry, catalog.find(name.name, name.tag));
  std::vector<const CatalogVariant*> variants = {entry.variant};
  if (name.tag.empty()) {
    variants.clear();
    for (const CatalogVariant& variant : entry.model->variants) variants.push_back(&variant);
  }
  Json data = Json::array();
  for (const EngineCheck& check : check_engines(*entry.model, variants, {})) {
    if (options.json) {
      data.push_back(engine_check_json(check));
    } else {
      print_check(check);
    }
  }
  if (options.json) print_json({{"model", entry.model->name}, {"data", data}});
  return {};
}

}  // namespace

void add_engines(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<EnginesOptions>();
  CLI::App* command = app.add_subcommand("engines", "which engines can run a model here, and why not");
  command->add_option("NAME", options->model, "name of the catalogue; with a variant, that one alone")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(engines(*options), *command, exit); });
}

}  // namespace quern::cli
