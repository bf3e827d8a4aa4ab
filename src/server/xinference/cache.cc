// Models on this machine's disk: what was pulled, and taking it away.
#include "base/status.h"
#include "platform/catalog/catalog.h"
#include "platform/model_name.h"
#include "platform/pull.h"
#include "platform/store.h"
#include "server/platform/json_route.h"
#include "server/platform/words.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using platform::Context;
using platform::json_route;

// Files are on this machine; others keep their own.
ApiResult<void> check_worker(const http::Request& request) {
  const auto worker = request.query_value("worker_ip").value_or("");
  if (worker.empty() || worker == "local" || worker == "None") return {};
  return bad_field("worker_ip", fmt::format("worker_ip: {} is not this machine, whose files alone are listed", worker));
}

// The catalogue's variant that the stored model is of, if it is.
Catalog::Entry entry_of(const Catalog& catalog, const StoredModel& stored) {
  const auto name = parse_model_name(stored.name);
  if (!name || name->kind != ModelNameKind::kCatalog) return {};
  return catalog.find(name->name, name->tag).value_or(Catalog::Entry());
}

Json stored_json(const Catalog& catalog, const StoredModel& stored) {
  const Catalog::Entry entry = entry_of(catalog, stored);
  Json json = {{"model_name", entry.model == nullptr ? stored.name : entry.model->name}};
  json["model_version"] = stored.key;
  const bool gguf = stored.path.extension() == ".gguf";
  const auto words = entry.variant == nullptr
                         ? platform::format_words(gguf ? "gguf" : "safetensors", "")
                         : platform::format_words(entry.variant->format, entry.variant->quantization);
  json["model_format"] = words.format;
  json["model_size_in_billions"] =
      entry.variant == nullptr ? Json(nullptr) : platform::size_word(std::string_view(entry.variant->size));
  json["quantization"] = words.quantization;
  json["path"] = stored.path.string();
  json["real_path"] = stored.path.string();
  json["bytes"] = stored.bytes;
  json["actor_ip_address"] = "local";
  return json;
}

ApiResult<Json> list_cached(const Context&, const ModelTable&, const http::Request& request) {
  if (const auto allowed = check_worker(request); !allowed) return std::unexpected(allowed.error());
  const auto wanted = request.query_value("model_name").value_or("");
  const Catalog catalog = Catalog::open().value_or(Catalog());
  Json list = Json::array();
  for (const StoredModel& stored : list_stored()) {
    Json json = stored_json(catalog, stored);
    if (wanted.empty() || json["model_name"] == wanted || stored.name == wanted) list.push_back(std::move(json));
  }
  return Json{{"list", std::move(list)}};
}

// A key, a stored name, a name of the catalogue, or a version as GET …/versions writes it.
ApiResult<StoredModel> find_version(const http::Request& request) {
  if (const auto allowed = check_worker(request); !allowed) return std::unexpected(allowed.error());
  const std::string version(request.query_value("model_version").value_or(""));
  if (version.empty()) return bad_field("model_version", "model_version: is missing");
  const Catalog catalog = Catalog::open().value_or(Catalog());
  for (const StoredModel& stored : list_stored()) {
    const Catalog::Entry entry = entry_of(catalog, stored);
    const bool named = entry.variant != nullptr && platform::version_word(*entry.model, *entry.variant) == version;
    if (named || stored.key == version) return stored;
  }
  const auto stored = find_stored(version);
  if (!stored) return std::unexpected(platform::platform_error(stored.error()));
  return *stored;
}

ApiResult<Json> list_files(const Context&, const ModelTable&, const http::Request& request) {
  const auto stored = find_version(request);
  if (!stored) return std::unexpected(stored.error());
  Json paths = Json::array();
  std::error_code error;
  const std::filesystem::path folder = store_folder(stored->key);
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) paths.push_back(entry->path().string());
  }
  return Json{{"model_version", request.query_value("model_version").value_or("")},
              {"worker_ip", "local"},
              {"paths", std::move(paths)}};
}

// A running worker has the files mapped, and would not find them again after a crash.
const ModelView* user_of(const std::vector<ModelView>& models, const StoredModel& stored) {
  const std::string folder = store_folder(stored.key).string();
  for (const ModelView& model : models) {
    if (model.model == stored.name || model.model.starts_with(folder + "/") || model.model == folder) return &model;
  }
  return nullptr;
}

ApiResult<Json> remove_cached(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto stored = find_version(request);
  if (!stored) return std::unexpected(stored.error());
  const std::vector<ModelView> models = context.fleet == nullptr ? std::vector<ModelView>() : context.fleet->models();
  if (const ModelView* user = user_of(models, *stored)) {
    return std::unexpected(ApiError{.status = 409,
                                    .message = fmt::format("{} is in use by {}", stored->name, user->spec.uid),
                                    .param = "model_version"});
  }
  if (const Status status = remove_stored(stored->key); !status) {
    return std::unexpected(platform::platform_error(status.error()));
  }
  return Json{{"result", true}};
}

}  // namespace

Routes cache_routes(const Context& context) {
  return {
      needs(people::Scope::kCacheRead, {"GET", "/v1/cache/models", json_route(context, list_cached)}),
      needs(people::Scope::kCacheRead, {"GET", "/v1/cache/models/files", json_route(context, list_files)}),
      needs(people::Scope::kCacheWrite, {"DELETE", "/v1/cache/models", json_route(context, remove_cached)}),
  };
}

}  // namespace quern::xinference
