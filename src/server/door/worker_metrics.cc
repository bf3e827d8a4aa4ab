#include "server/door/worker_metrics.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include "platform/fleet/node.h"
#include "server/door/metrics_merge.h"
#include "server/door/worker_call.h"

namespace quern::door {
namespace {

constexpr int kReplicasMax = 64;
constexpr size_t kBytesMax = 1u << 20;
constexpr std::chrono::seconds kTimeOfOne{1}, kTimeOfAll{3};

using Clock = std::chrono::steady_clock;

// Empty when nothing whole came.
asio::awaitable<std::string> metrics_of(WorkerAddress address, ConnectionPool& pool) {
  const auto strand = co_await asio::this_coro::executor;
  const auto call = std::make_shared<WorkerCall>(pool, std::move(address));
  asio::steady_timer timer(strand, kTimeOfOne);
  timer.async_wait([weak = std::weak_ptr(call)](const error_code& cancelled) {
    if (const auto late = weak.lock(); late && !cancelled) late->stop();
  });
  WorkerRequest request;
  request.method = "GET";
  request.target = "/metrics";
  std::string text;
  bool more = co_await call->begin(request);
  more = more && call->head().status == 200;
  while (more && text.size() <= kBytesMax) more = co_await call->read(text);
  if (call->end() != CallEnd::kWhole) text.clear();
  co_return text;
}

}  // namespace

asio::awaitable<std::string> with_worker_metrics(const std::string& own, const Fleet& fleet, ConnectionPool& pool) {
  MetricsMerge merge;
  merge.add(own);
  const auto deadline = Clock::now() + kTimeOfAll;
  int asked = 0;
  for (const ModelView& model : fleet.models()) {
    if (model.spec.engine == "openai") continue;
    for (const ReplicaView& replica : model.replicas) {
      if (replica.node != kThisNode && !replica.node.empty()) continue;  // its machine has a /metrics of its own
      auto address = parse_worker_address(replica.address);
      if (replica.state != ReplicaState::kReady || !address) continue;
      if (asked++ == kReplicasMax || Clock::now() > deadline) co_return merge.text();
      const std::string text = co_await metrics_of(std::move(*address), pool);
      merge.add_worker(text, model.spec.uid, replica.id);
    }
  }
  co_return merge.text();
}

}  // namespace quern::door
