// quern pull MODEL, quern list, quern rm MODEL, quern show MODEL: the local store and the catalogue.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "model_arg.h"
#include "platform/catalog.h"
#include "platform/model_name.h"

namespace quern::cli {
namespace {

struct StoreOptions {
  std::vector<std::string> models;
  bool json = false;
  bool all = false;
  bool path_only = false;
};

std::string size_text(int64_t bytes) {
  if (bytes < 0) return "?";
  if (bytes >= (int64_t{1} << 30)) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

Json stored_json(const StoredModel& model) {
  return {{"name", model.name},
          {"path", model.path.string()},
          {"bytes", model.bytes},
          {"source", model.source},
          {"pulled_at", model.pulled_at}};
}

Json variant_json(const CatalogModel& model, const CatalogVariant& variant) {
  return {{"name", model.name + ":" + variant.tag},
          {"kind", model.kind},
          {"family", model.family},
          {"license", model.license},
          {"context", model.context},
          {"format", variant.format},
          {"bytes", variant.bytes < 0 ? Json(nullptr) : Json(variant.bytes)},
          {"sha256", variant.sha256.empty() ? Json(nullptr) : Json(variant.sha256)},
          {"description", model.description}};
}

void print_json(const Json& json) {
  std::printf("%s\n", dump_json(json, 2).c_str());
}

Status pull(const StoreOptions& options) {
  ProgressBar bar;
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
  QUERN_ASSIGN(const Catalog catalog, Catalog::built_in());
  Json data = Json::array();
  for (const CatalogModel& model : catalog.models()) {
    for (const CatalogVariant& variant : model.variants) {
      data.push_back(variant_json(model, variant));
      if (options.json) continue;
      std::printf("%-30s %-14s %-12s %10s  %s\n", (model.name + ":" + variant.tag).c_str(), model.kind.c_str(),
                  variant.format.c_str(), size_text(variant.bytes).c_str(), model.description.c_str());
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

Status show(const StoreOptions& options) {
  const std::string& name = options.models.front();
  QUERN_ASSIGN(const ModelName parsed, parse_model_name(name));
  std::error_code ignored;
  if (parsed.kind == ModelNameKind::kPath && !find_stored(name)) {
    if (!std::filesystem::exists(name, ignored)) return not_found(fmt::format("{}: no such file or folder", name));
    return invalid_argument(fmt::format("{}: is a path, not a pulled model; quern inspect shows what is in it", name));
  }
  QUERN_ASSIGN(const Catalog catalog, Catalog::built_in());
  Json result = Json::object();
  if (parsed.kind == ModelNameKind::kCatalog) {
    QUERN_ASSIGN(const Catalog::Entry entry, catalog.find(parsed.name, parsed.tag));
    result = variant_json(*entry.model, *entry.variant);
    Json tags = Json::array();
    for (const CatalogVariant& variant : entry.model->variants) tags.push_back(variant.tag);
    result["variants"] = std::move(tags);
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

void add_show(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<StoreOptions>();
  CLI::App* command = add(app, exit, "show", "what is known of a model", show, options);
  command->add_option("MODEL", options->models, "catalogue name or a pulled model")->required()->expected(1);
}

}  // namespace quern::cli
