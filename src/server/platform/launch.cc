#include "server/platform/launch.h"

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/status.h"
#include "server/offload.h"

namespace quern::platform {
namespace {

using http::asio::awaitable;

constexpr std::chrono::milliseconds kPollPause{50};

ApiError taken(const std::string& uid) {
  return {.status = 409,
          .message = fmt::format("uid: {} is the name of a model already", uid),
          .param = "model_uid",
          .code = "model_exists"};
}

ApiResult<LaunchSpec> read_launch(const Context& context, const ModelTable& models, const Json& body) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto fleet = context.find_fleet();
  if (!fleet) return std::unexpected(fleet.error());
  auto spec = launch_spec_from_json(body);
  if (!spec) return std::unexpected(platform_error(spec.error()));
  if (spec->uid.empty()) return std::move(*spec);
  if ((*fleet)->knows(spec->uid) || models.find(spec->uid)) return std::unexpected(taken(spec->uid));
  return std::move(*spec);
}

// Files are read and catalogues looked up: not on a thread that serves connections.
ApiResult<std::string> start(Fleet& fleet, const ModelTable& models, const LaunchSpec& spec) {
  auto uid = fleet.launch(spec);
  if (!uid) return std::unexpected(platform_error(uid.error()));
  if (!models.find(*uid)) return std::move(*uid);
  // The name was made from the model's, and one that this process serves itself has it.
  if (const Status status = fleet.terminate(*uid); !status) return std::unexpected(platform_error(status.error()));
  return std::unexpected(taken(*uid));
}

ApiError failed(const ModelView& model) {
  return {.status = 503,
          .message = fmt::format("{} did not come up: {}", model.spec.uid, model.message),
          .type = "service_unavailable",
          .code = "launch_failed"};
}

ApiError cancelled() {
  return {.status = 499, .message = "Launch cancelled", .type = "cancelled", .code = "launch_cancelled"};
}

ApiError stopping() {
  return {.status = 503, .message = "the server is shutting down", .type = "service_unavailable"};
}

Json uid_json(const std::string& uid) {
  return {{"model_uid", uid}};
}

// Returns why it will not be ready; status 0: the client has left.
awaitable<std::optional<ApiError>> wait_until_ready(Fleet& fleet, const std::string& uid, http::Reply& reply) {
  for (;;) {
    const std::optional<ModelView> model = fleet.model(uid);
    if (!model || model->state == ModelState::kTerminating || model->state == ModelState::kTerminated) {
      co_return cancelled();
    }
    if (model->state == ModelState::kReady) co_return std::nullopt;
    if (model->state == ModelState::kError) {
      // Whoever waits is told here; one that comes up later, by itself, would surprise him.
      static_cast<void>(fleet.terminate(uid));
      co_return failed(*model);
    }
    if (reply.out_of_time()) co_return stopping();
    if (reply.client_gone()) {
      ApiError nobody;
      nobody.status = 0;
      co_return nobody;
    }
    co_await pause(reply, kPollPause);
  }
}

// Other words for a field of a spec: what a body says by them takes the place of what the spec had.
constexpr auto kOtherWords = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"model_uid", "uid"},
    {"model", "model_name"},
    {"type", "model_type"},
    {"model_format", "format"},
    {"model_size_in_billions", "size"},
    {"model_engine", "engine"},
    {"replica", "replicas"},
    {"max_model_len", "context"},
    {"peft_model_config", "adapters"},
    {"envs", "env"},
    {"keep_alive", "keep_alive_s"},
    {"request_limits", "request_limit"},
    {"gpu_idx", "device"},
});

}  // namespace

ApiResult<bool> read_flag(const http::Request& request, std::string_view name, bool otherwise) {
  const auto value = request.query_value(name);
  if (!value || value->empty()) return otherwise;
  if (*value == "true" || *value == "True" || *value == "1") return true;
  if (*value == "false" || *value == "False" || *value == "0") return false;
  return bad_field(std::string(name), fmt::format("{}: must be true or false", name));
}

awaitable<void> pause(http::Reply& reply, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kLook{250};
  const auto executor = co_await http::asio::this_coro::executor;
  http::asio::steady_timer timer(executor);
  while (time.count() > 0 && !reply.client_gone() && !reply.out_of_time()) {
    const auto part = std::min(time, kLook);
    timer.expires_after(part);
    boost::system::error_code ignored;
    co_await timer.async_wait(http::asio::redirect_error(http::asio::use_awaitable, ignored));
    time -= part;
  }
}

awaitable<void> launch(const Context& context, const ModelTable& models, Json body, bool wait, http::Reply& reply) {
  const std::function<ApiResult<std::string>()> begin = [&]() -> ApiResult<std::string> {
    const auto spec = read_launch(context, models, body);
    if (!spec) return std::unexpected(spec.error());
    return start(*context.fleet, models, *spec);
  };
  const auto uid = co_await offload(begin);
  if (!uid) co_return co_await send_error(reply, uid.error());
  if (wait) {
    const auto error = co_await wait_until_ready(*context.fleet, *uid, reply);
    if (error && error->status == 0) co_return;
    if (error) co_return co_await send_error(reply, *error);
  }
  co_await send_json(reply, uid_json(*uid));
}

Result<LaunchSpec> changed_spec(const LaunchSpec& spec, const Json& body) {
  if (!body.is_object()) return invalid_argument("the request body must be a JSON object");
  Json merged = spec.to_json();
  for (const auto& [word, field] : kOtherWords) {
    if (body.contains(word)) merged.erase(std::string(field));
  }
  for (const auto& item : body.items()) merged[item.key()] = item.value();
  merged["uid"] = spec.uid;
  merged.erase("model_uid");
  QUERN_ASSIGN(LaunchSpec changed, launch_spec_from_json(merged));
  if (changed.engine == spec.engine || body.contains("engine_options")) return changed;
  merged["engine_options"] = Json::object();
  return launch_spec_from_json(merged);
}

}  // namespace quern::platform
