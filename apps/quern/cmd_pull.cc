// quern pull MODEL, quern list, quern rm MODEL: the local store.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "model_arg.h"
#include "platform/catalog/catalog.h"
#include "platform/catalog/describe.h"

namespace quern::cli {
namespace {

struct StoreOptions {
  std::vector<std::string> models;
  bool json = false;
  bool all = false;
  bool path_only = false;
  bool progress = false;
};

Status pull(const StoreOptions& options) {
  ProgressBar bar(options.progress ? 1 : 25);
  QUERN_ASSIGN(const StoredModel model, pull_model(options.models.front(), bar.callback()));
  if (options.json) {
    print_json(stored_json(model));
  } else if (options.path_only) {
    std::printf("%s\n", model.path.c_str());
  } else {
    std::printf("%s  %s  %s\n", model.name.c_str(), size_text(model.bytes).c_str(), model.path.c_str());
  }
  return {};
}

Status list_catalog(const StoreOptions& options) {
  QUERN_ASSIGN(const Catalog catalog, Catalog::open());
  Json data = Json::array();
  for (const CatalogModel* model : catalog.models()) {
    for (const CatalogVariant& variant : model->variants) {
      if (options.json) data.push_back(catalog_variant_json(*model, variant));
      if (options.json) continue;
      std::printf("%-30s %-14s %-12s %10s  %s\n", (model->name + ":" + variant.tag).c_str(), model->kind.c_str(),
                  variant.format.c_str(), size_text(variant.bytes).c_str(), model->description.c_str());
    }
  }
  if (options.json) print_json({{"data", data}});
  return {};
}

Status list(const StoreOptions& options) {
  if (options.all) return list_catalog(options);
  Json data = Json::array();
  const std::vector<StoredModel> models = list_stored();
  if (models.empty() && !options.json && ::isatty(STDOUT_FILENO) != 0) {
    std::fputs("quern: nothing is pulled yet; quern list --all shows the catalogue\n", stderr);
  }
  for (const StoredModel& model : models) {
    data.push_back(stored_json(model));
    if (options.json) continue;
    std::printf("%-40s %10s  %s\n", model.name.c_str(), size_text(model.bytes).c_str(), model.path.c_str());
  }
  if (options.json) print_json({{"data", data}});
  return {};
}

Status remove(const StoreOptions& options) {
  // All are looked up first: a name that is wrong removes nothing.
  std::vector<StoredModel> models;
  for (const std::string& name : options.models) {
    QUERN_ASSIGN(StoredModel model, find_stored(name));
    const auto same = [&](const StoredModel& other) { return other.key == model.key; };
    if (std::ranges::none_of(models, same)) models.push_back(std::move(model));
  }
  Json removed = Json::array();
  for (const StoredModel& model : models) {
    QUERN_TRY(remove_stored(model.key));
    removed.push_back(stored_json(model));
    if (!options.json) std::printf("removed %s\n", model.name.c_str());
  }
  if (options.json) print_json({{"removed", removed}});
  return {};
}

CLI::App* add(CLI::App& app, ExitCode& exit, const char* name, const char* help, Status (*run)(const StoreOptions&),
              const std::shared_ptr<StoreOptions>& options) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, run, command, &exit] { finish(run(*options), *command, exit); });
  return command;
}

}  // namespace

void add_pull(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<StoreOptions>();
  CLI::App* command = add(app, exit, "pull", "bring a model to this machine", pull, options);
  command->add_option("MODEL", options->models, kModelHelp)->required()->expected(1);
  command->add_flag("--path-only", options->path_only, "print the path alone");
  command->add_flag("--progress", options->progress,
                    "where stderr is no terminal: a line for each percent, not each 25");
}

void add_list(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<StoreOptions>();
  CLI::App* command = add(app, exit, "list", "models on this machine", list, options);
  command->add_flag("--all", options->all, "what the catalogue has instead");
}

void add_rm(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<StoreOptions>();
  CLI::App* command = add(app, exit, "rm", "remove models from this machine", remove, options);
  command->add_option("MODEL", options->models, "names as `quern list` shows them")->required();
}

}  // namespace quern::cli
