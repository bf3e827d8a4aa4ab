#include "server/door/worker_metrics.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>

#include "platform/fleet/node.h"
#include "server/door/metrics_merge.h"
#include "server/door/worker_call.h"

namespace quern::door {
namespace {

constexpr size_t kReplicasMax = 64;  // of this machine
constexpr size_t kMachinesMax = 64;
constexpr size_t kBytesMax = 1u << 20, kMachineBytesMax = 8u << 20, kAllBytesMax = 64u << 20;
constexpr std::chrono::seconds kTimeOfAll{2};

// One text of metrics that is on its way.
struct Source {
  WorkerAddress address;
  std::string api_key;
  size_t bytes_max = kBytesMax;
  WorkerLabels labels;                                    // of a worker of this machine
  std::unordered_map<std::string, WorkerLabels> by_name;  // of another machine
  std::shared_ptr<WorkerCall> call;
  std::string text;  // empty when nothing whole came
};

// All are asked side by side, so one that hangs takes nobody else's time.
struct Gathering {
  explicit Gathering(const asio::any_io_executor& strand) : timer(strand) {}
  std::vector<Source> sources;
  size_t open = 0;
  size_t bytes_left = kAllBytesMax;
  asio::steady_timer timer;  // until the last has answered, or time is up
};

asio::awaitable<void> ask(std::shared_ptr<Gathering> gathering, size_t index) {
  Source& source = gathering->sources[index];
  const std::shared_ptr<WorkerCall> call = source.call;
  WorkerRequest request;
  request.method = "GET";
  request.target = "/metrics";
  if (!source.api_key.empty()) request.headers.emplace_back("Authorization", "Bearer " + source.api_key);
  std::string text;
  bool more = co_await call->begin(request);
  more = more && call->head().status == 200;
  while (more && text.size() <= source.bytes_max && gathering->bytes_left > 0) {
    const size_t before = text.size();
    more = co_await call->read(text);
    gathering->bytes_left -= std::min(gathering->bytes_left, text.size() - before);
  }
  if (call->end() == CallEnd::kWhole) source.text = std::move(text);
  if (--gathering->open == 0) gathering->timer.cancel();
}

bool counts(const ModelView& model, const WorkerWay& way) {
  return way.ready && model.spec.engine != "openai";
}

// What there is to ask: each worker of this machine, and each other machine once.
std::vector<Source> sources_of(const Fleet& fleet) {
  std::vector<Source> sources;
  std::map<std::string, Source> machines;  // by name
  for (const ModelView& model : fleet.models()) {
    for (const WorkerWay& way : fleet.ways(model.spec.uid)) {
      auto address = parse_worker_address(way.address);
      if (!counts(model, way) || !address) continue;
      WorkerLabels labels{.uid = model.spec.uid, .replica = way.replica, .node = way.node};
      if (way.node == kThisNode) {
        if (sources.size() >= kReplicasMax) continue;
        Source& one = sources.emplace_back();
        one.address = std::move(*address);
        one.labels = std::move(labels);
        continue;
      }
      if (!machines.contains(way.node) && machines.size() >= kMachinesMax) continue;
      Source& machine = machines[way.node];
      machine.address = std::move(*address);
      machine.api_key = way.api_key;
      machine.bytes_max = kMachineBytesMax;
      machine.by_name[way.model] = std::move(labels);
    }
  }
  for (auto& [name, machine] : machines) sources.push_back(std::move(machine));
  return sources;
}

}  // namespace

asio::awaitable<std::string> with_worker_metrics(const std::string& own, const Fleet& fleet, ConnectionPool& pool) {
  const asio::any_io_executor strand = co_await asio::this_coro::executor;
  const auto gathering = std::make_shared<Gathering>(strand);
  gathering->sources = sources_of(fleet);
  gathering->open = gathering->sources.size();
  gathering->timer.expires_after(kTimeOfAll);
  for (size_t i = 0; i < gathering->sources.size(); ++i) {
    Source& source = gathering->sources[i];
    source.call = std::make_shared<WorkerCall>(pool, source.address);
    asio::co_spawn(strand, ask(gathering, i), asio::detached);
  }
  error_code ignored;
  if (gathering->open > 0) co_await gathering->timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  MetricsMerge merge;
  merge.add(own);
  for (Source& source : gathering->sources) {
    if (source.text.empty()) source.call->stop();  // it may still hang
    if (source.by_name.empty()) {
      merge.add_worker(source.text, source.labels);
    } else {
      merge.add_machine(source.text, source.by_name);
    }
  }
  co_return merge.text();
}

}  // namespace quern::door
