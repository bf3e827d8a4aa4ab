#include "server/openai/adapters.h"

#include <functional>

#include "base/status.h"
#include "server/fields.h"
#include "server/offload.h"
#include "server/route.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

struct AdapterRequest {
  const ServedModel* model = nullptr;
  AdapterInfo info;
  bool reload = false;
};

ApiResult<AdapterRequest> parse(const ModelTable& models, const http::Request& request, bool with_path) {
  auto body = parse_json(request.body, "request body");
  if (!body) return std::unexpected(to_api_error(body.error()));
  Fields fields(*body);
  AdapterRequest result;
  const auto name = fields.string("lora_name");
  if (!name || name->empty()) fields.fault("lora_name", "lora_name: is missing");
  const auto model_name = fields.string("model").value_or("");
  if (with_path) {
    const auto path = fields.string("lora_path");
    if (!path || path->empty()) fields.fault("lora_path", "lora_path: is missing");
    result.info.path = path.value_or("");
    result.reload = fields.boolean("load_inplace").value_or(false);
    result.info.scale = static_cast<float>(fields.number("scale", -1e6, 1e6).value_or(1.0));
    fields.accept({"base_model_name"});
  }
  fields.accept({"lora_int_id"});
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  result.info.name = *name;
  auto model = models.find_generator(model_name);
  if (!model) return std::unexpected(model.error());
  result.model = *model;
  if (with_path && models.find(result.info.name)) {
    return bad_field("lora_name", fmt::format("lora_name: {} is the name of a model", result.info.name));
  }
  return result;
}

ApiResult<std::string> load(const AdapterRules& rules, const ModelTable& models, const http::Request& request) {
  if (const auto allowed = rules.check_updates(); !allowed) return std::unexpected(allowed.error());
  auto parsed = parse(models, request, /*with_path=*/true);
  if (!parsed) return std::unexpected(parsed.error());
  auto path = rules.resolve(parsed->info.path.native());
  if (!path) return std::unexpected(path.error());
  parsed->info.path = std::move(*path);
  const std::string name = parsed->info.name;
  if (auto loaded = parsed->model->engine->adapters().load(std::move(parsed->info), parsed->reload); !loaded) {
    ApiError error = to_api_error(loaded.error());
    // A file that does not fit is the caller's mistake here, not the server's.
    if (error.status >= 500) error.status = 400;
    error.param = loaded.error().code == ErrorCode::kInvalidArgument ? "lora_name" : "lora_path";
    return std::unexpected(std::move(error));
  }
  return fmt::format("Success: LoRA adapter '{}' added successfully.", name);
}

ApiResult<std::string> unload(const AdapterRules& rules, const ModelTable& models, const http::Request& request) {
  if (const auto allowed = rules.check_updates(); !allowed) return std::unexpected(allowed.error());
  auto parsed = parse(models, request, /*with_path=*/false);
  if (!parsed) return std::unexpected(parsed.error());
  if (auto unloaded = parsed->model->engine->adapters().unload(parsed->info.name); !unloaded) {
    ApiError error = to_api_error(unloaded.error());
    error.param = "lora_name";
    return std::unexpected(std::move(error));
  }
  return fmt::format("Success: LoRA adapter '{}' removed successfully.", parsed->info.name);
}

using Change = ApiResult<std::string> (*)(const AdapterRules&, const ModelTable&, const http::Request&);

// Reading weights takes its time: not on a thread that carries sockets.
awaitable<void> answer(Change change, const AdapterRules& rules, const ModelTable& models, const http::Request& request,
                       http::Reply& reply) {
  const std::function<ApiResult<std::string>()> work = [&] { return change(rules, models, request); };
  const auto result = co_await offload(work);
  if (!result) co_return co_await send_error(reply, result.error());
  co_await reply.send(200, "text/plain; charset=utf-8", *result);
}

RouteFunction route(Change change, const AdapterRules& rules) {
  return
      [change, &rules](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
        return answer(change, rules, models, request, reply);
      };
}

}  // namespace

RouteFunction load_adapter(const AdapterRules& rules) {
  return route(load, rules);
}

RouteFunction unload_adapter(const AdapterRules& rules) {
  return route(unload, rules);
}

}  // namespace quern::openai
