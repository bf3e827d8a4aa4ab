#include "server/door/adapter_change.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include "base/status.h"
#include "server/door/worker_call.h"
#include "server/offload.h"

namespace quern::door {
namespace {

using http::asio::awaitable;

constexpr std::chrono::seconds kTimeOfOne{120};  // weights are read, perhaps from a slow disk
constexpr size_t kAnswerBytesMax = 64 * 1024;

ApiError not_there(std::string message) {
  return {.status = 503, .message = std::move(message), .type = "service_unavailable", .code = "no_worker"};
}

std::string order_of(const std::string& uid, const WorkerWay& way, const LaunchAdapter& adapter) {
  Json body = {{"model", way.model.empty() ? uid : way.model}, {"lora_name", adapter.name}};
  if (!adapter.path.empty()) {
    body["lora_path"] = adapter.path;
    body["load_inplace"] = true;
  }
  return dump_json(body);
}

ApiError refusal_of(const WorkerWay& way, int status, const std::string& text) {
  const auto body = parse_json(text, "answer");
  std::string words = fmt::format("answered {}", status);
  std::string param;
  if (body && body->is_object() && body->contains("error") && (*body)["error"].is_object()) {
    const Json& error = (*body)["error"];
    if (error.contains("message") && error["message"].is_string()) words = error["message"].get<std::string>();
    if (error.contains("param") && error["param"].is_string()) param = error["param"].get<std::string>();
  }
  const std::string who = fmt::format("{} on {}: ", way.replica, way.node);
  const bool mendable = status >= 400 && status < 500 && status != 401 && status != 429;
  return {.status = mendable ? 400 : 503,
          .message = who + words,
          .type = mendable ? "invalid_request_error" : "service_unavailable",
          .param = param};
}

awaitable<ApiResult<void>> tell(ConnectionPool& pool, const std::string& uid, const WorkerWay& way,
                                const LaunchAdapter& adapter) {
  auto address = parse_worker_address(way.address);
  if (!address) co_return std::unexpected(not_there(address.error().message));
  const auto strand = co_await asio::this_coro::executor;
  const auto call = std::make_shared<WorkerCall>(pool, std::move(*address));
  asio::steady_timer timer(strand, kTimeOfOne);
  timer.async_wait([weak = std::weak_ptr(call)](const error_code& cancelled) {
    if (const auto late = weak.lock(); late && !cancelled) late->stop();
  });
  const std::string body = order_of(uid, way, adapter);
  WorkerRequest request;
  request.method = "POST";
  request.target = adapter.path.empty() ? "/v1/unload_lora_adapter" : "/v1/load_lora_adapter";
  request.headers.emplace_back("Content-Type", "application/json");
  if (!way.api_key.empty()) request.headers.emplace_back("Authorization", "Bearer " + way.api_key);
  request.body.push_back(body);
  bool more = co_await call->begin(request);
  const int status = more ? call->head().status : 0;
  std::string text;
  while (more && text.size() <= kAnswerBytesMax) more = co_await call->read(text);
  if (call->end() != CallEnd::kWhole) {
    const std::string why = call->end() == CallEnd::kStopped ? "no answer in time" : call->reason();
    co_return std::unexpected(not_there(fmt::format("{} on {}: {}", way.replica, way.node, why)));
  }
  // One that has it no more is as it shall be.
  const bool is_done = status == 200 || (adapter.path.empty() && status == 404);
  if (!is_done) co_return std::unexpected(refusal_of(way, status, text));
  co_return ApiResult<void>();
}

// What the model had by that name; an empty path: nothing.
LaunchAdapter before(const ModelView& view, const std::string& name) {
  const auto known = std::ranges::find(view.spec.adapters, name, &LaunchAdapter::name);
  return known == view.spec.adapters.end() ? LaunchAdapter{name, ""} : *known;
}

}  // namespace

awaitable<ApiResult<void>> change_adapter(Door& door, std::string uid, LaunchAdapter adapter) {
  Fleet& fleet = door.fleet();
  std::vector<WorkerWay> ways = fleet.ways(uid);
  std::erase_if(ways, [](const WorkerWay& way) { return !way.ready; });
  const auto view = fleet.model(uid);
  if (!view || ways.empty()) {
    co_return std::unexpected(not_there(fmt::format("{}: no replica serves now that could try the adapter", uid)));
  }
  const LaunchAdapter old = before(*view, adapter.name);
  std::vector<uint64_t> told;
  ApiResult<void> changed;
  for (const WorkerWay& way : ways) {
    changed = co_await tell(door.pool(), uid, way, adapter);
    told.push_back(way.life);  // one that did not answer may have done it
    if (!changed) break;
  }
  if (changed) {
    const std::function<Status()> remember = [&] { return fleet.change_adapter(uid, adapter, told); };
    const Status status = co_await offload(remember);
    if (!status) changed = std::unexpected(to_api_error(status.error()));
  }
  if (changed) co_return changed;
  for (size_t i = 0; i < told.size(); ++i) {
    const auto undone = co_await tell(door.pool(), uid, ways[i], old);
    static_cast<void>(undone);  // it may be gone meanwhile
  }
  co_return changed;
}

}  // namespace quern::door
