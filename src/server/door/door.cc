#include "server/door/door.h"

#include "base/status.h"
#include "server/door/body_scan.h"
#include "server/door/carriage.h"
#include "server/door/worker_metrics.h"
#include "server/foreign/translation.h"
#include "server/http/multipart.h"
#include "server/offload.h"

namespace quern::door {
namespace {

using http::asio::awaitable;

constexpr size_t kScannedInPlaceMax = 256 * 1024;  // bytes; a longer body is scanned beside the connections' threads

using Scanned = Result<std::optional<BodyScan>>;

Scanned scan_any(const http::Request& request) {
  const std::string_view type = request.header("content-type").value_or("");
  if (http::is_multipart(type)) return scan_form(type, request.body);
  return scan_body(request.body);
}

awaitable<Scanned> scan(const http::Request& request) {
  if (request.body.size() <= kScannedInPlaceMax) co_return scan_any(request);
  const std::function<Scanned()> work = [&] { return scan_any(request); };
  co_return co_await offload(work);
}

ApiError form_error(const Error& error) {
  ApiError refused = to_api_error(error);
  if (error.message.starts_with("model:")) refused.param = "model";
  return refused;
}

}  // namespace

Result<std::unique_ptr<Door>> Door::create(Fleet& fleet, const Log& log, DoorOptions options) {
  std::unique_ptr<Door> door(new Door(fleet, log, std::move(options)));
  QUERN_ASSIGN(door->pool_, ConnectionPool::create(door->options_.pool));
  return door;
}

std::optional<ServedName> Door::known_name(const std::string& name) const {
  auto known = fleet_.resolve(name);
  constexpr std::string_view kLatest = ":latest";
  if (!known && name.ends_with(kLatest)) known = fleet_.resolve(name.substr(0, name.size() - kLatest.size()));
  return known;
}

awaitable<bool> Door::serve(const Route& route, const ModelTable& local, const http::Request& request,
                            http::Reply& reply) {
  auto scanned = co_await scan(request);
  if (!scanned) {
    const ApiError error = form_error(scanned.error());
    co_await send_error(reply, error, route.error_body);
    co_return true;
  }
  if (!*scanned || local.choose_any((*scanned)->model)) co_return false;
  auto name = known_name((*scanned)->model);
  if (!name) co_return false;
  // What a model is, no engine but ours can tell in Ollama's words: the route does, and nothing is loaded for it.
  if (request.path == "/api/show") {
    const auto view = fleet_.model(name->uid);
    if (view && foreign::is_foreign(view->spec.engine)) co_return false;
  }
  Carriage carriage(*this, route, request, reply, std::move(*name), std::move(**scanned));
  co_await carriage.run();
  co_return true;
}

std::optional<int64_t> Door::clients(const std::string& model) {
  const auto name = known_name(model);
  if (!name) return std::nullopt;
  return metrics_.model(name->uid)->clients.load(std::memory_order_relaxed);
}

awaitable<std::string> Door::add_metrics(std::string own) const {
  metrics_.render(own);
  co_return co_await with_worker_metrics(own, fleet_, *pool_);
}

}  // namespace quern::door
