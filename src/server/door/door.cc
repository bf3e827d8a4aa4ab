#include "server/door/door.h"

#include "base/status.h"
#include "server/door/body_scan.h"
#include "server/door/carriage.h"
#include "server/door/worker_metrics.h"
#include "server/offload.h"

namespace quern::door {
namespace {

using http::asio::awaitable;

constexpr size_t kScannedInPlaceMax = 256 * 1024;  // bytes; a longer body is scanned beside the connections' threads

awaitable<std::optional<BodyScan>> scan(const std::string& body) {
  if (body.size() <= kScannedInPlaceMax) co_return scan_body(body);
  const std::function<std::optional<BodyScan>()> work = [&] { return scan_body(body); };
  co_return co_await offload(work);
}

}  // namespace

Result<std::unique_ptr<Door>> Door::create(Fleet& fleet, const Log& log, DoorOptions options) {
  std::unique_ptr<Door> door(new Door(fleet, log, std::move(options)));
  QUERN_ASSIGN(door->pool_, ConnectionPool::create(door->options_.pool));
  return door;
}

std::optional<std::string> Door::known_name(const std::string& name) const {
  if (fleet_.knows(name)) return name;
  constexpr std::string_view kLatest = ":latest";
  if (!name.ends_with(kLatest)) return std::nullopt;
  std::string without = name.substr(0, name.size() - kLatest.size());
  if (!fleet_.knows(without)) return std::nullopt;
  return without;
}

awaitable<bool> Door::serve(const Route& route, const ModelTable& local, const http::Request& request,
                            http::Reply& reply) {
  auto scanned = co_await scan(request.body);
  if (!scanned || local.choose_any(scanned->model)) co_return false;
  auto uid = known_name(scanned->model);
  if (!uid) co_return false;
  Carriage carriage(*this, route, request, reply, std::move(*uid), std::move(*scanned));
  co_await carriage.run();
  co_return true;
}

std::optional<int64_t> Door::clients(const std::string& model) {
  const auto uid = known_name(model);
  if (!uid) return std::nullopt;
  return metrics_.model(*uid)->clients.load(std::memory_order_relaxed);
}

awaitable<std::string> Door::add_metrics(std::string own) const {
  metrics_.render(own);
  co_return co_await with_worker_metrics(own, fleet_, *pool_);
}

}  // namespace quern::door
