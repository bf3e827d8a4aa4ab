#include "platform/fleet/fleet.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <thread>

#include "base/status.h"
#include "platform/fleet/fleet_owner.h"
#include "platform/http_client.h"
#include "platform/model_name.h"

namespace quern {
namespace {

// A uid for who named none: what the model is called, as far as it can be one.
std::string uid_of(const LaunchSpec& spec) {
  std::string name = spec.model_name.empty() ? spec.model_path : spec.model_name;
  while (name.ends_with('/')) name.pop_back();
  const auto parsed = parse_model_name(name);
  if (parsed && parsed->kind != ModelNameKind::kCatalog) name = name.substr(name.find_last_of('/') + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  std::string uid;
  for (const char c : name.substr(0, 100)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("._:@-").contains(c);
    uid += plain ? c : '-';
  }
  return uid.empty() ? "model" : uid;
}

class FleetOfThisMachine final : public Fleet, private FleetNodes {
 public:
  FleetOfThisMachine(FleetOptions options, std::shared_ptr<FleetShared> shared, std::unique_ptr<FleetOwner> owner)
      : options_(std::move(options)), shared_(std::move(shared)), owner_(std::move(owner)) {
    thread_ = std::thread([this] { owner_->run(); });
  }
  ~FleetOfThisMachine() override {
    owner_->stop();
    thread_.join();
  }

  Result<std::string> launch(LaunchSpec spec) override {
    QUERN_TRY(check_worker_spec(spec));
    QUERN_ASSIGN(ModelFacts facts, read_model_facts(spec));
    owner_->wait_for_devices(spec);
    const bool chosen = !spec.uid.empty();
    const std::string base = chosen ? spec.uid : uid_of(spec);
    for (int32_t number = 0;; ++number) {
      spec.uid = number == 0 ? base : fmt::format("{}-{}", base, number);
      if (!chosen && knows(spec.uid) && number < 10000) continue;
      return command([&](FleetOwner& owner, FleetOwner::Reply reply) {
        owner.launch(std::move(spec), std::move(facts), std::move(reply));
      });
    }
  }

  Status update(LaunchSpec spec) override {
    QUERN_TRY(check_worker_spec(spec));
    QUERN_ASSIGN(ModelFacts facts, read_model_facts(spec));
    owner_->wait_for_devices(spec);
    return without_value(command([&](FleetOwner& owner, FleetOwner::Reply reply) {
      owner.update(std::move(spec), std::move(facts), std::move(reply));
    }));
  }

  Status terminate(const std::string& uid) override {
    return without_value(
        command([&](FleetOwner& owner, FleetOwner::Reply reply) { owner.terminate(uid, std::move(reply)); }));
  }

  Status set_replicas(const std::string& uid, int32_t count) override {
    if (count < 0 || count > 64) return invalid_argument(fmt::format("replicas: {} is not from 0 to 64", count));
    return without_value(
        command([&](FleetOwner& owner, FleetOwner::Reply reply) { owner.set_replicas(uid, count, std::move(reply)); }));
  }

  Status stop_replica(const std::string& uid, const std::string& replica) override {
    return without_value(command(
        [&](FleetOwner& owner, FleetOwner::Reply reply) { owner.stop_replica(uid, replica, std::move(reply)); }));
  }

  Status unload(const std::string& uid) override {
    return without_value(
        command([&](FleetOwner& owner, FleetOwner::Reply reply) { owner.unload(uid, std::move(reply)); }));
  }

  std::vector<ModelView> models() const override {
    std::vector<ModelView> models = *views();
    for (ModelView& model : models) add_load(model);
    return models;
  }

  std::optional<ModelView> model(const std::string& uid) const override {
    const auto all = views();
    const auto same = [&](const ModelView& one) { return one.spec.uid == uid; };
    const auto it = std::ranges::find_if(*all, same);
    if (it == all->end()) return std::nullopt;
    ModelView model = *it;
    add_load(model);
    return model;
  }

  bool knows(const std::string& uid) const override {
    const std::lock_guard lock(shared_->router_mutex);
    return shared_->router.knows(uid);
  }

  std::optional<ServedName> resolve(const std::string& name) const override {
    const std::lock_guard lock(shared_->router_mutex);
    return shared_->router.resolve(name);
  }

  std::vector<FleetEvent> events(const std::string& uid, int64_t after) const override {
    std::vector<FleetEvent> found;
    const std::lock_guard lock(shared_->view_mutex);
    for (const FleetEvent& event : shared_->events) {
      if (event.id > after && (uid.empty() || event.uid == uid)) found.push_back(event);
    }
    return found;
  }

  std::vector<WorkerWay> ways(const std::string& uid) const override {
    const std::lock_guard lock(shared_->view_mutex);
    const auto it = shared_->ways.find(uid);
    return it == shared_->ways.end() ? std::vector<WorkerWay>() : it->second;
  }

  Status change_adapter(const std::string& uid, LaunchAdapter adapter, std::vector<uint64_t> told) override {
    return without_value(command([&](FleetOwner& owner, FleetOwner::Reply reply) {
      owner.change_adapter(uid, std::move(adapter), told, std::move(reply));
    }));
  }

  Result<std::string> log_tail(const std::string& uid, const std::string& replica, size_t bytes_max) const override {
    const auto all = views();
    for (const ModelView& model : *all) {
      if (model.spec.uid != uid) continue;
      for (const ReplicaView& one : model.replicas) {
        if (one.id != replica) continue;
        return one.log_file.empty() ? log_of_node(uid, one, bytes_max) : read_tail(one.log_file, bytes_max);
      }
    }
    return not_found(fmt::format("{}: no such replica of {}", replica, uid));
  }

  void lease(RouteRequest request, std::chrono::milliseconds patience, LeaseDone done) override {
    const int64_t now = steady_ms();
    std::optional<Router::Pick> pick;
    std::optional<RouteRefusal> refusal;
    uint64_t tried_life = 0;
    {
      const std::lock_guard lock(shared_->router_mutex);
      tried_life = shared_->life;
      if (!shared_->router.knows(request.uid)) {
        refusal = {RouteRefusal::Reason::kUnknownModel, fmt::format("{}: no such model", request.uid), 0};
      } else if (!shared_->router.admit(request.uid)) {
        refusal = {RouteRefusal::Reason::kBusy,
                   fmt::format("{} has as many requests as it may have (request_limit)", request.uid), 1};
      } else {
        pick = shared_->router.pick(request, tried_life, now);
      }
    }
    if (refusal) return done(std::unexpected(std::move(*refusal)));
    if (pick) return done(make_lease(shared_, request.uid, std::move(*pick), suspecting()));
    wait({.request = std::move(request),
          .tried_life = tried_life,
          .since_ms = now,
          .deadline_ms = now + patience.count(),
          .done = std::move(done)});
  }

  FleetNodes* nodes() override { return this; }
  int64_t memory_budget() const override {
    const std::lock_guard lock(shared_->view_mutex);
    return shared_->memory_budget;
  }

 private:
  Status join(NodeJoin join) override {
    return without_value(
        command([&](FleetOwner& owner, FleetOwner::Reply reply) { owner.join(std::move(join), std::move(reply)); }));
  }
  Status check_key(const std::string& name, const std::string& key) override {
    return without_value(command([&](FleetOwner& owner, const FleetOwner::Reply& reply) {
      const Status status = owner.check_node_key(name, key);
      reply(status ? Result<std::string>(name) : std::unexpected(status.error()));
    }));
  }
  Result<std::vector<NodeWish>> heartbeat(const std::string& name, const std::string& key, NodeReport report) override {
    const auto promise = std::make_shared<std::promise<Result<std::vector<NodeWish>>>>();
    auto future = promise->get_future();
    const bool sent = shared_->post([&] {
      owner_->heartbeat(name, key, std::move(report),
                        [promise](auto wishes) { promise->set_value(std::move(wishes)); });
    });
    if (!sent) return make_error(ErrorCode::kUnavailable, "the server stops");
    return future.get();
  }
  std::vector<NodeView> list() const override {
    const std::lock_guard lock(shared_->view_mutex);
    return shared_->nodes;
  }
  Status set_draining(const std::string& name, bool draining) override {
    return without_value(command([&](FleetOwner& owner, FleetOwner::Reply reply) {
      owner.set_node_draining(name, draining, std::move(reply));
    }));
  }
  Status remove(const std::string& name) override {
    return without_value(
        command([&](FleetOwner& owner, FleetOwner::Reply reply) { owner.remove_node(name, std::move(reply)); }));
  }

  // The node's own server has it.
  Result<std::string> log_of_node(const std::string& uid, const ReplicaView& replica, size_t bytes_max) const {
    const std::vector<WorkerWay> all = ways(uid);
    const auto way = std::ranges::find(all, replica.id, &WorkerWay::replica);
    if (way == all.end()) return std::string();  // it has just gone
    HttpOptions http{.bearer_token = way->api_key, .stall_seconds_max = 5, .seconds_max = 10};
    http.pin = std::string(pin_of_address(way->address));
    http.direct = true;
    const HttpCall call{
        .url = fmt::format("{}/v1/models/{}/logs?bytes={}", address_without_pin(way->address), way->model, bytes_max)};
    QUERN_ASSIGN(HttpAnswer answer, http_call(call, http, bytes_max + 65536));
    if (answer.status != 200) {
      return make_error(ErrorCode::kUnavailable, fmt::format("machine {} answered {}", replica.node, answer.status));
    }
    return std::move(answer.body);
  }

  static Status without_value(Result<std::string> result) {
    if (!result) return std::unexpected(std::move(result).error());
    return {};
  }

  static Result<std::string> read_tail(const std::filesystem::path& path, size_t bytes_max) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::string();  // nothing was written yet
    file.seekg(0, std::ios::end);
    const auto size = static_cast<size_t>(std::max<std::streamoff>(0, file.tellg()));
    std::string text(std::min(size, bytes_max), '\0');
    file.seekg(static_cast<std::streamoff>(size - text.size()));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
  }

  std::shared_ptr<const std::vector<ModelView>> views() const {
    const std::lock_guard lock(shared_->view_mutex);
    return shared_->views;
  }

  void add_load(ModelView& model) const {
    const std::lock_guard lock(shared_->router_mutex);
    for (ReplicaView& replica : model.replicas) {
      replica.in_flight = shared_->router.load(model.spec.uid, replica.id).in_flight;
    }
  }

  // Runs `order` on the fleet's thread and waits for its reply.
  template <class Order>
  Result<std::string> command(Order order) {
    const auto promise = std::make_shared<std::promise<Result<std::string>>>();
    auto future = promise->get_future();
    FleetOwner::Reply reply = [promise](Result<std::string> result) { promise->set_value(std::move(result)); };
    const bool sent = shared_->post([this, &order, reply] { order(*owner_, reply); });
    if (!sent) return make_error(ErrorCode::kUnavailable, "the server stops");
    return future.get();
  }

  // A lease may outlive the fleet: then nobody is told.
  std::function<void(const std::string&, uint64_t)> suspecting() const {
    return [shared = shared_, owner = owner_.get()](const std::string& uid, uint64_t life) {
      shared->post([owner, uid, life] { owner->suspect(uid, life); });
    };
  }

  void wait(FleetWaiter waiter) {
    const std::string uid = waiter.request.uid;
    const auto shared_waiter = std::make_shared<FleetWaiter>(std::move(waiter));
    const bool sent =
        shared_->post([owner = owner_.get(), shared_waiter] { owner->wait_for_replica(std::move(*shared_waiter)); });
    if (sent) return;
    {
      const std::lock_guard lock(shared_->router_mutex);
      shared_->router.leave(uid, steady_ms());
    }
    shared_waiter->done(std::unexpected(RouteRefusal{RouteRefusal::Reason::kUnavailable, "the server stops", 0}));
  }

  const FleetOptions options_;
  const std::shared_ptr<FleetShared> shared_;
  const std::unique_ptr<FleetOwner> owner_;
  std::thread thread_;
};

}  // namespace

const char* replica_state_name(ReplicaState state) {
  switch (state) {
    case ReplicaState::kWaiting: return "waiting";
    case ReplicaState::kPulling: return "pulling";
    case ReplicaState::kLoading: return "loading";
    case ReplicaState::kReady: return "ready";
    case ReplicaState::kDraining: return "draining";
    case ReplicaState::kBackoff: return "backoff";
    case ReplicaState::kStopped: return "stopped";
    case ReplicaState::kLost: return "lost";
  }
  return "?";
}

const char* model_state_name(ModelState state) {
  switch (state) {
    case ModelState::kCreating: return "CREATING";
    case ModelState::kLoading: return "LOADING";
    case ModelState::kReady: return "READY";
    case ModelState::kError: return "ERROR";
    case ModelState::kTerminating: return "TERMINATING";
    case ModelState::kTerminated: return "TERMINATED";
  }
  return "?";
}

Result<std::unique_ptr<Fleet>> Fleet::open(FleetOptions options) {
  std::error_code error;
  options.folder = std::filesystem::absolute(options.folder, error).lexically_normal();
  std::vector<std::string> notes;
  QUERN_ASSIGN(auto store, FleetStore::open(options.folder, notes));
  QUERN_ASSIGN(auto probes, WorkerProbes::create());
  const auto shared = std::make_shared<FleetShared>();
  shared->wake = [waker = probes.get()] { waker->wake(); };
  auto owner = std::make_unique<FleetOwner>(options, shared, std::move(store), std::move(probes));
  QUERN_TRY(owner->restore(std::move(notes)));
  return std::make_unique<FleetOfThisMachine>(std::move(options), shared, std::move(owner));
}

}  // namespace quern
