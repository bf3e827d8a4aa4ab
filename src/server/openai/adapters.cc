#include "server/openai/adapters.h"

#include <algorithm>
#include <functional>

#include "base/status.h"
#include "server/door/adapter_change.h"
#include "server/fields.h"
#include "server/offload.h"
#include "server/platform/context.h"
#include "server/platform/launch.h"
#include "server/route.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

struct AdapterRequest {
  std::string model;  // or empty
  AdapterInfo info;
  bool loads = true;
  bool reload = false;
};

ApiResult<AdapterRequest> parse(const AdapterRules& rules, const http::Request& request, bool loads) {
  if (const auto allowed = rules.check_updates(); !allowed) return std::unexpected(allowed.error());
  auto body = parse_json(request.body, "request body");
  if (!body) return std::unexpected(to_api_error(body.error()));
  Fields fields(*body);
  AdapterRequest result;
  result.loads = loads;
  const auto name = fields.string("lora_name");
  if (!name || name->empty()) fields.fault("lora_name", "lora_name: is missing");
  result.model = fields.string("model").value_or("");
  if (loads) {
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
  if (!loads) return result;
  auto path = rules.resolve(result.info.path.native());
  if (!path) return std::unexpected(path.error());
  result.info.path = std::move(*path);
  return result;
}

ApiResult<void> change_own(const ModelTable& models, AdapterRequest order) {
  const auto model = models.find_generator(order.model);
  if (!model) return std::unexpected(model.error());
  if (order.loads && models.find(order.info.name)) {
    return bad_field("lora_name", fmt::format("lora_name: {} is the name of a model", order.info.name));
  }
  auto& adapters = (*model)->engine->adapters();
  const Status status =
      order.loads ? adapters.load(std::move(order.info), order.reload) : adapters.unload(order.info.name);
  if (status) return {};
  ApiError error = to_api_error(status.error());
  // A file that does not fit is the caller's mistake here, not the server's.
  if (order.loads && error.status >= 500) error.status = 400;
  const bool is_name = !order.loads || status.error().code == ErrorCode::kInvalidArgument;
  error.param = is_name ? "lora_name" : "lora_path";
  return std::unexpected(std::move(error));
}

// The launched model that is meant, if it is one: as named, or the only one where this process serves none itself.
std::optional<ModelView> launched_model(const ModelTable& models, const door::Door* door, const std::string& name) {
  if (door == nullptr) return std::nullopt;
  if (!name.empty()) return models.find(name) ? std::nullopt : door->fleet().model(name);
  const auto views = models.models().empty() ? door->fleet().models() : std::vector<ModelView>();
  return views.size() == 1 ? std::optional(views.front()) : std::nullopt;
}

ApiResult<void> check_launched(const ModelTable& models, const Fleet& fleet, const ModelView& view,
                               const AdapterRequest& order) {
  const std::string& name = order.info.name;
  if (view.spec.engine != "quern") {
    return bad_field("model", fmt::format("model: engine {} of {} changes adapters with its launch only: PUT "
                                          "/v1/models/{} {{\"adapters\"}}",
                                          view.spec.engine, view.spec.uid, view.spec.uid));
  }
  if (order.info.scale != 1) return bad_field("scale", "scale: a launched model's adapters have their files' own");
  const auto& known = view.spec.adapters;
  const bool is_known = std::ranges::find(known, name, &LaunchAdapter::name) != known.end();
  if (!order.loads) {
    if (is_known) return {};
    return std::unexpected(
        ApiError{.status = 404, .message = fmt::format("adapter: '{}' is not loaded", name), .param = "lora_name"});
  }
  if (models.find(name) || fleet.knows(name)) {
    return bad_field("lora_name", fmt::format("lora_name: {} is the name of a model", name));
  }
  if (is_known && !order.reload) {
    return bad_field("lora_name", fmt::format("lora_name: {} is loaded already; load_inplace replaces it", name));
  }
  Json list = view.spec.to_json()["adapters"];
  if (!is_known) list.push_back({{"name", name}, {"path", order.info.path.string()}});
  if (const auto spec = platform::changed_spec(view.spec, {{"adapters", std::move(list)}}); !spec) {
    return std::unexpected(platform::platform_error(spec.error()));
  }
  return {};
}

// Reading weights takes its time: not on a thread that carries sockets.
awaitable<ApiResult<void>> change(const ModelTable& models, door::Door* door, const AdapterRequest& order) {
  const std::function<std::optional<ModelView>()> look = [&] { return launched_model(models, door, order.model); };
  const auto view = co_await offload(look);
  if (!view) {
    const std::function<ApiResult<void>()> work = [&] { return change_own(models, order); };
    co_return co_await offload(work);
  }
  const auto allowed = check_launched(models, door->fleet(), *view, order);
  if (!allowed) co_return std::unexpected(allowed.error());
  LaunchAdapter adapter;
  adapter.name = order.info.name;
  // Other processes have folders of their own to start from.
  if (order.loads) adapter.path = std::filesystem::absolute(order.info.path).string();
  co_return co_await door::change_adapter(*door, view->spec.uid, std::move(adapter));
}

RouteFunction route(const AdapterRules& rules, door::Door* door, bool loads) {
  return [&rules, door, loads](const ModelTable& models, const http::Request& request,
                               http::Reply& reply) -> awaitable<void> {
    const auto order = parse(rules, request, loads);
    if (!order) co_return co_await send_error(reply, order.error());
    const auto result = co_await change(models, door, *order);
    if (!result) co_return co_await send_error(reply, result.error());
    std::string words =
        fmt::format("Success: LoRA adapter '{}' {} successfully.", order->info.name, loads ? "added" : "removed");
    co_await reply.send(200, "text/plain; charset=utf-8", std::move(words));
  };
}

}  // namespace

RouteFunction load_adapter(const AdapterRules& rules, door::Door* door) {
  return route(rules, door, /*loads=*/true);
}

RouteFunction unload_adapter(const AdapterRules& rules, door::Door* door) {
  return route(rules, door, /*loads=*/false);
}

}  // namespace quern::openai
