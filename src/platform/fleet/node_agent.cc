#include "platform/fleet/node_agent.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "base/status.h"
#include "hardware/inventory/inventory.h"
#include "platform/fleet/device_wish.h"
#include "platform/http_client.h"

namespace quern {
namespace {

constexpr int64_t kAnswerSecondsMax = 4;  // of the server; less than the time after which it calls us lost
constexpr size_t kAnswerBytesMax = 16u << 20;
constexpr std::chrono::milliseconds kPauseMin{500}, kPauseMax{2000};
constexpr std::chrono::milliseconds kBusyInterval{250};  // while something loads or ends
constexpr std::chrono::seconds kInventoryInterval{10};   // the server counts on it: kNodeInventoryMs

class Agent final : public NodeAgent {
 public:
  Agent(Fleet& fleet, NodeAgentOptions options) : fleet_(fleet), options_(std::move(options)) {
    while (options_.server.ends_with('/')) options_.server.pop_back();
  }
  ~Agent() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wakes_.notify_all();
    inventory_.request_stop();
    if (thread_.joinable()) thread_.join();
  }

  Status begin() {
    inventory_ = std::jthread([this](const std::stop_token& stop) { look_for_devices(stop); });
    const Status joined = join();
    if (!joined && joined.error().code == ErrorCode::kPermissionDenied) return joined;
    note_change(joined);
    joined_ = joined.has_value();
    thread_ = std::thread([this] { run(); });
    return {};
  }

 private:
  // False: the agent ends.
  bool pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return !wakes_.wait_for(lock, time, [this] { return stopping_; });
  }

  void run() {
    std::chrono::milliseconds wait{0};
    auto back_off = kPauseMin;
    while (pause(wait)) {
      Status status = {};
      if (!joined_) {
        status = join();
        joined_ = status.has_value();
      }
      if (status) status = beat();
      note_change(status);
      wait = status ? (busy_ ? std::min(kBusyInterval, options_.interval) : options_.interval) : back_off;
      back_off = status ? kPauseMin : std::min(back_off * 2, kPauseMax);
    }
  }

  // What is wrong, once.
  void note_change(const Status& status) {
    const std::string now = status ? "" : status.error().message;
    if (std::exchange(trouble_, now) == now || !options_.log) return;
    options_.log(now.empty() ? "the server is reached again" : "the server: " + now);
  }

  Result<HttpAnswer> ask(const std::string& path, const std::string& token, const Json& body) const {
    HttpOptions http{.bearer_token = token, .stall_seconds_max = kAnswerSecondsMax, .seconds_max = kAnswerSecondsMax};
    http.ca_file = options_.ca_file;
    const HttpCall call{.method = "POST", .url = options_.server + path, .body = dump_json(body)};
    return http_call(call, http, kAnswerBytesMax);
  }

  static std::string words_of(const HttpAnswer& answer) {
    const auto body = parse_json(answer.body, "answer");
    if (body && body->is_object() && body->contains("detail") && (*body)["detail"].is_string()) {
      return (*body)["detail"].get<std::string>();
    }
    return fmt::format("it answered {}", answer.status);
  }

  NodeMachine machine() {
    NodeMachine machine = measure_machine(fleet_.memory_budget());
    const std::lock_guard lock(mutex_);
    machine.devices = devices_;
    return machine;
  }

  Status join() {
    NodeJoin join = options_.join;
    join.machine = machine();
    QUERN_ASSIGN(const HttpAnswer answer, ask("/v1/nodes/join", options_.token, to_json(join)));
    if (answer.status == 200) {
      if (options_.log) options_.log(fmt::format("joined {} as {}", options_.server, join.name));
      return {};
    }
    const bool refused = answer.status == 401 || answer.status == 403 || answer.status == 400;
    return make_error(refused ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable, words_of(answer));
  }

  Status beat() {
    NodeReport report{.machine = machine(), .replicas = replicas()};
    busy_ = std::ranges::any_of(
        report.replicas, [](const NodeReplica& one) { return one.state != ReplicaState::kReady && !one.failed; });
    const std::string path = fmt::format("/v1/nodes/{}/heartbeat", options_.join.name);
    QUERN_ASSIGN(const HttpAnswer answer, ask(path, options_.join.key, to_json(report)));
    if (answer.status == 404 || answer.status == 401) {
      joined_ = false;
      return make_error(ErrorCode::kUnavailable, words_of(answer));
    }
    if (answer.status != 200) return make_error(ErrorCode::kUnavailable, words_of(answer));
    QUERN_ASSIGN(const Json body, parse_json(answer.body, "heartbeat"));
    QUERN_ASSIGN(const auto wishes, node_wishes_from_json(body));
    obey(wishes);
    return {};
  }

  std::vector<NodeReplica> replicas() const {
    std::vector<NodeReplica> found;
    for (const ModelView& model : fleet_.models()) {
      NodeReplica one;
      one.name = model.spec.uid;
      one.failed = model.state == ModelState::kError;
      one.message = model.message;
      if (!model.replicas.empty()) {
        const ReplicaView& replica = model.replicas.front();
        one.state = model.state == ModelState::kTerminating ? ReplicaState::kDraining : replica.state;
        one.pid = replica.pid;
        one.memory_bytes = replica.memory_bytes;
        one.restarts = replica.restarts;
        one.load_seconds = replica.load_seconds;
        one.progress = std::clamp(replica.progress, 0.0, 1.0);
        if (one.message.empty()) one.message = replica.message;
      }
      found.push_back(std::move(one));
    }
    for (const auto& [name, why] : refused_) {
      NodeReplica one;
      one.name = name;
      one.state = ReplicaState::kBackoff;
      one.failed = true;
      one.message = why;
      found.push_back(std::move(one));
    }
    return found;
  }

  void obey(const std::vector<NodeWish>& wishes) {
    std::set<std::string> wished, here;
    for (const NodeWish& wish : wishes) wished.insert(wish.name);
    std::erase_if(refused_, [&](const auto& one) { return !wished.contains(one.first); });
    for (const ModelView& model : fleet_.models()) {
      here.insert(model.spec.uid);
      if (wished.contains(model.spec.uid) || model.state == ModelState::kTerminating) continue;
      busy_ = true;
      // It may have gone by itself.
      static_cast<void>(fleet_.terminate(model.spec.uid));
    }
    for (const NodeWish& wish : wishes) {
      if (!wish.spec || here.contains(wish.name) || refused_.contains(wish.name)) continue;
      busy_ = true;
      LaunchSpec spec = *wish.spec;
      spec.uid = wish.name;
      spec.node_labels.clear();
      // Residency is the server's business.
      spec.replicas = 1;
      spec.priority = spec.request_limit = 0;
      spec.pinned = true;
      spec.keep_alive_s = -1;
      const auto launched = fleet_.launch(std::move(spec));
      if (!launched) refused_[wish.name] = launched.error().message;
    }
  }

  void look_for_devices(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const Inventory inventory = take_inventory({}, stop);
      Json list = inventory_json(inventory)["data"];
      // What our environment hides from us the server cannot know.
      for (const DeviceInfo& device : inventory.devices) {
        for (Json& one : list) {
          if (one["id"] == device.id() && must_be_named(device)) one["must_be_named"] = true;
        }
      }
      std::unique_lock lock(mutex_);
      devices_ = std::move(list);
      wakes_.wait_for(lock, kInventoryInterval, [&] { return stopping_ || stop.stop_requested(); });
    }
  }

  Fleet& fleet_;
  NodeAgentOptions options_;
  // Of the agent's thread.
  bool joined_ = false, busy_ = false;
  std::string trouble_;
  std::map<std::string, std::string> refused_;  // what could not even be launched, and why

  std::mutex mutex_;
  std::condition_variable wakes_;
  bool stopping_ = false;         // guarded by mutex_
  Json devices_ = Json::array();  // empty: not known yet; guarded by mutex_
  std::thread thread_;
  std::jthread inventory_;  // last: it ends first
};

}  // namespace

Result<std::unique_ptr<NodeAgent>> NodeAgent::start(Fleet& fleet, NodeAgentOptions options) {
  auto agent = std::make_unique<Agent>(fleet, std::move(options));
  QUERN_TRY(agent->begin());
  return agent;
}

}  // namespace quern
