#include "server/door/machine_log.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <optional>

#include "fmt/format.h"
#include "platform/fleet/node.h"
#include "server/door/stop_hook.h"
#include "server/http/percent.h"

namespace quern::door {
namespace {

using http::asio::awaitable;

constexpr int64_t kOffsetMax = int64_t{1} << 53;  // bytes of a log
constexpr std::chrono::seconds kPauseBetweenCalls{1};

// Where a reader is.
struct Place {
  std::string run;                // of the replica, as its machine calls it
  std::optional<int64_t> offset;  // of the next byte in that run's log; none: the end decides
};

awaitable<void> rest() {
  const auto strand = co_await http::asio::this_coro::executor;
  http::asio::steady_timer timer(strand, kPauseBetweenCalls);
  boost::system::error_code ignored;
  co_await timer.async_wait(http::asio::redirect_error(http::asio::use_awaitable, ignored));
}

std::optional<WorkerWay> way_of(const Fleet& fleet, const std::string& uid, const std::string& replica) {
  const std::vector<WorkerWay> ways = fleet.ways(uid);
  const auto way = std::ranges::find(ways, replica, &WorkerWay::replica);
  if (way == ways.end() || way->node == kThisNode) return std::nullopt;
  return *way;
}

// It may have no address for a while: between two starts, or while its machine is not heard.
bool may_come_back(const Fleet& fleet, const std::string& uid, const std::string& replica) {
  const auto view = fleet.model(uid);
  if (!view || !fleet.knows(uid)) return false;
  const auto one = std::ranges::find(view->replicas, replica, &ReplicaView::id);
  if (one == view->replicas.end()) return false;
  return one->node != kThisNode || one->address.empty();
}

WorkerRequest log_request(const WorkerWay& way, const Place& place, size_t bytes) {
  WorkerRequest request;
  request.method = "GET";
  request.target = fmt::format("/v1/models/{}/logs?follow=true&bytes={}", http::percent_encode(way.model), bytes);
  if (place.offset) request.target += fmt::format("&from={}", *place.offset);
  request.headers.emplace_back("Authorization", "Bearer " + way.api_key);
  return request;
}

std::optional<int64_t> told_offset(const AnswerHead& head) {
  const std::string_view text = head.header("x-quern-log-offset");
  int64_t offset = -1;
  std::from_chars(text.data(), text.data() + text.size(), offset);
  return offset < 0 || offset > kOffsetMax ? std::nullopt : std::optional(offset);
}

// Until the call ends, however it does. False: the client has left.
awaitable<bool> pass_log(const Door& door, const WorkerWay& way, Place& place, size_t bytes, http::Reply& reply) {
  auto address = parse_worker_address(way.address);
  if (!address) co_return true;
  WorkerCall call(door.pool(), std::move(*address));
  const StopHook hook(reply, call);
  const WorkerRequest request = log_request(way, place, bytes);
  const bool begun = co_await call.begin(request);
  if (!begun || call.head().status != 200) co_return !reply.client_gone();
  place.offset = told_offset(call.head());
  for (bool more = true; more;) {
    std::string piece;
    more = co_await call.read(piece);
    if (piece.empty()) continue;
    if (place.offset) *place.offset += static_cast<int64_t>(piece.size());
    const bool taken = co_await reply.write(piece);
    if (!taken) co_return false;
  }
  co_return !reply.client_gone();
}

}  // namespace

awaitable<void> follow_machine_log(const Door& door, std::string uid, std::string replica, size_t bytes,
                                   http::Reply& reply) {
  Place place;
  while (!reply.client_gone() && !reply.out_of_time()) {
    const auto way = way_of(door.fleet(), uid, replica);
    if (!way && !may_come_back(door.fleet(), uid, replica)) break;
    if (way) {
      if (way->model != place.run && !place.run.empty()) place.offset = 0;
      place.run = way->model;
      const bool here = co_await pass_log(door, *way, place, bytes, reply);
      if (!here) co_return;
    }
    if (!door.fleet().knows(uid)) break;
    co_await rest();
  }
}

}  // namespace quern::door
