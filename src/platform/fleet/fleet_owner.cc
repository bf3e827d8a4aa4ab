#include "platform/fleet/fleet_owner.h"

#include <openssl/sha.h>

#include <algorithm>
#include <chrono>

#include "base/status.h"

namespace quern {
namespace {

constexpr int64_t kTriedForMs = 2000;   // so long another replica is waited for rather than one that has failed
constexpr int64_t kPauseMs = 1500;      // between two turns; the longest sleep is half a second
constexpr int64_t kSaveRetryMs = 5000;  // after the store could not be written

class LeaseOfReplica final : public Lease {
 public:
  LeaseOfReplica(std::shared_ptr<FleetShared> shared, std::string uid, Router::Pick pick,
                 std::function<void(const std::string&, uint64_t)> suspect)
      : shared_(std::move(shared)), uid_(std::move(uid)), pick_(std::move(pick)), suspect_(std::move(suspect)) {}
  ~LeaseOfReplica() override { finish(Outcome::kAbandoned); }

  const std::string& replica() const override { return pick_.target.replica; }
  const std::string& address() const override { return pick_.target.address; }
  const std::string& base_path() const override { return pick_.target.base_path; }
  const std::string& api_key() const override { return pick_.target.api_key; }
  const std::string& model() const override { return pick_.target.model; }
  const std::string& engine() const override { return pick_.target.engine; }
  const std::string& fields() const override { return pick_.target.fields; }

  void finish(Outcome outcome) override {
    if (std::exchange(finished_, true)) return;
    {
      const std::lock_guard lock(shared_->router_mutex);
      const int64_t now = steady_ms();
      shared_->router.finish(uid_, pick_.target.replica, pick_.life, outcome, now);
      shared_->router.leave(uid_, now);
    }
    if (outcome == Outcome::kRefused || outcome == Outcome::kBroken) suspect_(uid_, pick_.life);
  }

 private:
  std::shared_ptr<FleetShared> shared_;
  std::string uid_;
  Router::Pick pick_;
  std::function<void(const std::string&, uint64_t)> suspect_;
  bool finished_ = false;
};

std::vector<std::string> adapter_names(const LaunchSpec& spec) {
  std::vector<std::string> names;
  for (const LaunchAdapter& adapter : spec.adapters) names.push_back(adapter.name);
  return names;
}

}  // namespace

int64_t steady_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string spec_digest(const LaunchSpec& spec) {
  LaunchSpec options = spec;
  options.replicas = 1;
  options.priority = options.request_limit = 0;
  options.pinned = false;
  options.keep_alive_s = -1;
  options.node_labels.clear();  // the planner moves what is in the wrong place
  const std::string text = dump_json(options.to_json());
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  std::string digest;
  for (size_t i = 0; i < 12; ++i) digest += fmt::format("{:02x}", hash[i]);
  return digest;
}

std::unique_ptr<Lease> make_lease(std::shared_ptr<FleetShared> shared, std::string uid, Router::Pick pick,
                                  std::function<void(const std::string&, uint64_t)> suspect) {
  return std::make_unique<LeaseOfReplica>(std::move(shared), std::move(uid), std::move(pick), std::move(suspect));
}

FleetOwner::FleetOwner(FleetOptions options, std::shared_ptr<FleetShared> shared, std::unique_ptr<FleetStore> store,
                       std::unique_ptr<WorkerProbes> probes)
    : options_(std::move(options)), shared_(std::move(shared)), store_(std::move(store)), probes_(std::move(probes)) {}

Status FleetOwner::restore(std::vector<std::string> notes) {
  QUERN_ASSIGN(socket_folder_, make_socket_folder(options_.folder));
  std::error_code error;
  std::filesystem::create_directories(options_.folder / "logs", error);
  QUERN_ASSIGN(const auto rows, store_->models(notes));
  QUERN_ASSIGN(const auto workers, store_->workers());
  QUERN_ASSIGN(const auto nodes, store_->nodes(notes));
  restore_nodes(nodes);
  watch_ = std::make_unique<DeviceWatch>([this](std::vector<DeviceMemory> found, int64_t begun_ms) {
    shared_->post([this, found = std::move(found), begun_ms]() mutable { set_devices(std::move(found), begun_ms); });
  });
  QUERN_ASSIGN(shared_->events, store_->events());
  last_event_id_ = shared_->events.empty() ? 0 : shared_->events.back().id;
  for (const StoredModelRow& row : rows) {
    auto model = std::make_unique<FleetModel>();
    model->spec = row.spec;
    model->digest = spec_digest(row.spec);
    model->created = row.created;
    model->awake = row.awake;
    model->demand_ms = model->woken_ms = steady_ms();
    model->runs_here = check_worker_here(row.spec).has_value();  // its devices are looked at later
    auto facts = read_model_facts(row.spec);
    if (facts) {
      model->facts = std::move(*facts);
      if (model->facts.path.empty()) model->files = FilesState::kMissing;
    } else {
      // Its file may come back: until then the reason is told, and asked again with each try.
      model->files = FilesState::kMissing;
      model->message = facts.error().message;
    }
    const std::lock_guard lock(shared_->router_mutex);
    shared_->router.set_model(row.spec.uid, row.spec.request_limit, adapter_names(row.spec));
    models_.push_back(std::move(model));
    look_for(row.spec);
  }
  std::set<int64_t> known;
  for (const StoredWorkerRow& row : workers) {
    const auto same = [&](const auto& model) { return model->spec.uid == row.uid; };
    const auto it = std::ranges::find_if(models_, same);
    if (it == models_.end()) {
      stored(store_->remove_worker(row.replica));
      continue;
    }
    if (!row.node.empty()) {
      adopt_on_node(row, **it);
      continue;
    }
    adopt(row, **it);
    known.insert(row.process.pid);
  }
  end_strays(known);
  for (const std::string& text : notes) note(text);
  measure();
  publish();
  return {};
}

void FleetOwner::note(const std::string& text) const {
  if (options_.log) options_.log(text);
}

void FleetOwner::event(const FleetModel& model, const std::string& replica, const std::string& kind,
                       std::string message) {
  FleetEvent one{.id = ++last_event_id_,
                 .time_ms = unix_ms(),
                 .uid = model.spec.uid,
                 .replica = replica,
                 .kind = kind,
                 .message = std::move(message)};
  note(fmt::format("{}: {}{}{}", replica.empty() ? one.uid : replica, kind, one.message.empty() ? "" : ": ",
                   one.message));
  stored(store_->add_event(one));
  changed_ = true;
  const std::lock_guard lock(shared_->view_mutex);
  auto& events = shared_->events;
  const auto same = [&](const FleetEvent& other) { return other.uid == one.uid; };
  if (std::ranges::count_if(events, same) >= FleetStore::kEventsMax) events.erase(std::ranges::find_if(events, same));
  events.push_back(std::move(one));
}

Status FleetOwner::save(const FleetModel& model) {
  return store_->put_model({.spec = model.spec, .created = model.created, .awake = model.awake});
}

void FleetOwner::stored(const Status& status) {
  if (status) return;
  if (!unsaved_)
    note(fmt::format("the state of models cannot be written, it is kept in memory: {}", status.error().message));
  unsaved_ = true;
  save_retry_ms_ = steady_ms() + kSaveRetryMs;
}

void FleetOwner::save_all() {
  save_retry_ms_ = steady_ms() + kSaveRetryMs;
  for (const auto& model : models_) {
    if (model->leaving) continue;
    if (!save(*model)) return;
    for (const FleetReplica& replica : model->replicas) {
      const bool runs = replica.process || !replica.node.empty();
      const Status status = runs ? store_->put_worker(stored_row(*model, replica)) : store_->remove_worker(replica.id);
      if (!status) return;
    }
  }
  unsaved_ = false;
  note("the state of models is written again");
}

Result<FleetModel*> FleetOwner::find(const std::string& uid) {
  for (const auto& model : models_) {
    if (model->spec.uid == uid) return model.get();
  }
  return not_found(fmt::format("{}: no such model", uid));
}

void FleetOwner::launch(LaunchSpec spec, ModelFacts facts, Reply reply) {
  const auto refuse = [&](Error error) { replies_.emplace_back(std::move(reply), std::unexpected(std::move(error))); };
  if (const auto taken = find(spec.uid)) {
    return refuse(
        {ErrorCode::kInvalidArgument,
         fmt::format("uid: {} {}", spec.uid, (*taken)->leaving ? "is still being terminated" : "is launched already")});
  }
  if (models_.size() >= kModelsMax) {
    return refuse({ErrorCode::kResourceExhausted, fmt::format("{} models are launched, no more fit", kModelsMax)});
  }
  auto model = std::make_unique<FleetModel>();
  model->spec = std::move(spec);
  model->facts = std::move(facts);
  model->digest = spec_digest(model->spec);
  model->created = unix_ms() / 1000;
  model->awake = model->spec.replicas > 0;
  model->demand_ms = model->woken_ms = steady_ms();
  if (model->facts.path.empty()) model->files = FilesState::kMissing;
  const Status here = check_here(model->spec);
  model->runs_here = check_worker_here(model->spec).has_value();
  if (!here && !suits_any_node(model->spec)) return refuse(here.error());
  if (const Status room = check_room(model->spec, model->facts); !room) return refuse(room.error());
  if (const Status status = save(*model); !status) return refuse(status.error());
  {
    const std::lock_guard lock(shared_->router_mutex);
    shared_->router.set_model(model->spec.uid, model->spec.request_limit, adapter_names(model->spec));
  }
  models_.push_back(std::move(model));
  look_for(models_.back()->spec);
  event(*models_.back(), "", "launched", models_.back()->spec.model_name);
  replies_.emplace_back(std::move(reply), models_.back()->spec.uid);
}

void FleetOwner::update(LaunchSpec spec, ModelFacts facts, Reply reply) {
  const auto found = find(spec.uid);
  if (!found || (*found)->leaving) {
    return replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such model", spec.uid))), void();
  }
  FleetModel& model = **found;
  const Status here = check_here(spec);
  if (!here && !suits_any_node(spec)) {
    return replies_.emplace_back(std::move(reply), std::unexpected(here.error())), void();
  }
  if (const Status status = store_->put_model({.spec = spec, .created = model.created, .awake = model.awake});
      !status) {
    return replies_.emplace_back(std::move(reply), std::unexpected(status.error())), void();
  }
  model.runs_here = check_worker_here(spec).has_value();
  model.facts = std::move(facts);
  if (!model.pull) model.files = model.facts.path.empty() ? FilesState::kMissing : FilesState::kHere;
  model.failed = false;
  set_spec(model, std::move(spec));
  model.demand_ms = steady_ms();
  event(model, "", "updated", "");
  replies_.emplace_back(std::move(reply), model.spec.uid);
}

Status FleetOwner::check_here(const LaunchSpec& spec) const {
  QUERN_TRY(check_worker_here(spec));
  if (has_wished_devices(spec)) return {};
  std::string known;
  for (const DeviceMemory& device : devices_.found) known += (known.empty() ? "" : ", ") + device.id;
  return unsupported(fmt::format("device: {}: this machine has {}", spec.device, known.empty() ? "none" : known));
}

// What the model shall be from now on: replicas of other options are old ones.
void FleetOwner::set_spec(FleetModel& model, LaunchSpec spec) {
  model.spec = std::move(spec);
  look_for(model.spec);
  model.digest = spec_digest(model.spec);
  for (FleetReplica& replica : model.replicas) {
    // What does not run yet starts with the new options, without the old one's failures.
    if (!replica.plan.is_live() && replica.plan.state != ReplicaState::kLost) {
      replica.digest = model.digest;
      replica.plan.failures = 0;
      replica.plan.retry_ms = 0;
    }
    replica.plan.current = replica.digest == model.digest;
  }
  const std::lock_guard lock(shared_->router_mutex);
  shared_->router.set_model(model.spec.uid, model.spec.request_limit, adapter_names(model.spec));
}

void FleetOwner::change_adapter(const std::string& uid, LaunchAdapter adapter, const std::vector<uint64_t>& told,
                                Reply reply) {
  const auto found = find(uid);
  if (!found || (*found)->leaving) {
    return replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such model", uid))), void();
  }
  FleetModel& model = **found;
  LaunchSpec spec = model.spec;
  const auto known = std::ranges::find(spec.adapters, adapter.name, &LaunchAdapter::name);
  const std::string what = fmt::format("adapter {} {}", adapter.name, adapter.path.empty() ? "unloaded" : "loaded");
  if (adapter.path.empty()) {
    if (known != spec.adapters.end()) spec.adapters.erase(known);
  } else if (known != spec.adapters.end()) {
    *known = std::move(adapter);
  } else {
    spec.adapters.push_back(std::move(adapter));
  }
  if (const Status status = store_->put_model({.spec = spec, .created = model.created, .awake = model.awake});
      !status) {
    return replies_.emplace_back(std::move(reply), std::unexpected(status.error())), void();
  }
  const std::string before = model.digest;
  const std::string after = spec_digest(spec);
  for (FleetReplica& replica : model.replicas) {
    const bool knows = std::ranges::find(told, replica.life) != told.end();
    if (!knows || replica.digest != before || replica.plan.state != ReplicaState::kReady) continue;
    replica.digest = after;
    replica.adapters = spec.adapters;
    stored(store_->put_worker(stored_row(model, replica)));
    show_router(model, replica);
  }
  set_spec(model, std::move(spec));
  event(model, "", "updated", what);
  replies_.emplace_back(std::move(reply), uid);
}

void FleetOwner::terminate(const std::string& uid, Reply reply) {
  const auto found = find(uid);
  if (!found || (*found)->leaving) {
    replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such model", uid)));
    return;
  }
  FleetModel& model = **found;
  // Forgotten first: whatever happens from here on, it does not come back.
  if (const Status status = store_->remove_model(uid); !status) {
    replies_.emplace_back(std::move(reply), std::unexpected(status.error()));
    return;
  }
  model.leaving = true;
  if (model.pull) model.pull->kill_group();
  refuse_waiters(model, RouteRefusal::Reason::kUnknownModel, fmt::format("{} was terminated", uid), 0);
  {
    const std::lock_guard lock(shared_->router_mutex);
    shared_->router.close_model(uid);
  }
  note(fmt::format("{}: terminating", uid));
  changed_ = true;
  replies_.emplace_back(std::move(reply), uid);
}

void FleetOwner::set_replicas(const std::string& uid, int32_t count, Reply reply) {
  const auto found = find(uid);
  if (!found || (*found)->leaving) {
    replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such model", uid)));
    return;
  }
  FleetModel& model = **found;
  const int32_t before = std::exchange(model.spec.replicas, count);
  model.awake = count > 0;
  if (const Status status = save(model); !status) {
    model.spec.replicas = before;
    replies_.emplace_back(std::move(reply), std::unexpected(status.error()));
    return;
  }
  model.demand_ms = steady_ms();
  event(model, "", "scaled", fmt::format("{} replicas", count));
  replies_.emplace_back(std::move(reply), uid);
}

void FleetOwner::stop_replica(const std::string& uid, const std::string& id, Reply reply) {
  const auto found = find(uid);
  const auto row = !found || (*found)->leaving ? nullptr : [&]() -> FleetReplica* {
    const auto it = std::ranges::find((*found)->replicas, id, &FleetReplica::id);
    return it == (*found)->replicas.end() ? nullptr : &*it;
  }();
  if (row == nullptr || row->plan.dismissed) {
    replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such replica of {}", id, uid)));
    return;
  }
  FleetModel& model = **found;
  row->plan.dismissed = true;
  if (row->process || !row->node.empty()) stored(store_->put_worker(stored_row(model, *row)));
  const int32_t count = std::max(0, model.spec.replicas - 1);
  set_replicas(uid, count, std::move(reply));
}

void FleetOwner::unload(const std::string& uid, Reply reply) {
  const auto found = find(uid);
  if (!found || (*found)->leaving) {
    replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such model", uid)));
    return;
  }
  if ((*found)->awake) {
    set_awake(**found, false);
    event(**found, "", "unloaded", "asked for");
  }
  replies_.emplace_back(std::move(reply), uid);
}

void FleetOwner::refuse_waiters(FleetModel& model, RouteRefusal::Reason reason, const std::string& message,
                                int32_t retry_after_s) {
  while (!model.waiters.empty()) {
    FleetWaiter waiter = std::move(model.waiters.front());
    model.waiters.pop_front();
    {
      const std::lock_guard lock(shared_->router_mutex);
      shared_->router.leave(model.spec.uid, steady_ms());
    }
    waiter.done(std::unexpected(RouteRefusal{reason, message, retry_after_s}));
  }
}

void FleetOwner::wait_for_replica(FleetWaiter waiter) {
  const auto found = find(waiter.request.uid);
  if (!found || (*found)->leaving) {
    waiter.done(std::unexpected(
        RouteRefusal{RouteRefusal::Reason::kUnknownModel, fmt::format("{}: no such model", waiter.request.uid), 0}));
    return;
  }
  FleetModel& model = **found;
  if (model.waiters.size() >= kWaitersMax) {
    {
      const std::lock_guard lock(shared_->router_mutex);
      shared_->router.leave(model.spec.uid, steady_ms());
    }
    waiter.done(std::unexpected(RouteRefusal{RouteRefusal::Reason::kBusy,
                                             fmt::format("{} requests wait for {}", kWaitersMax, model.spec.uid), 5}));
    return;
  }
  model.waiters.push_back(std::move(waiter));
  if (!model.awake) wake(model);
  changed_ = true;
}

void FleetOwner::wake(FleetModel& model) {
  set_awake(model, true);
  model.demand_ms = steady_ms();
  event(model, "", "woken", "by a request");
}

void FleetOwner::serve_waiters(FleetModel& model) {
  const int64_t now = steady_ms();
  if (!model.awake && !model.waiters.empty()) wake(model);
  std::deque<FleetWaiter> left;
  while (!model.waiters.empty()) {
    FleetWaiter waiter = std::move(model.waiters.front());
    model.waiters.pop_front();
    // Better one that has failed once than none: by now it has answered, or is another process.
    if (now - waiter.since_ms >= kTriedForMs) waiter.request.tried.clear();
    std::optional<Router::Pick> pick;
    {
      const std::lock_guard lock(shared_->router_mutex);
      pick = shared_->router.pick(waiter.request, waiter.tried_life, now);
      if (!pick && now >= waiter.deadline_ms) shared_->router.leave(model.spec.uid, now);
    }
    if (pick) {
      const auto shared = shared_;
      auto suspects = [this, shared](const std::string& uid, uint64_t life) {
        shared->post([this, uid, life] { suspect(uid, life); });
      };
      waiter.done(make_lease(shared_, model.spec.uid, std::move(*pick), std::move(suspects)));
    } else if (now >= waiter.deadline_ms) {
      waiter.done(std::unexpected(RouteRefusal{RouteRefusal::Reason::kTimeout,
                                               fmt::format("{} did not come up in time{}{}", model.spec.uid,
                                                           model.message.empty() ? "" : ": ", model.message),
                                               5}));
    } else {
      left.push_back(std::move(waiter));
    }
  }
  model.waiters = std::move(left);
  if (!model.failed || model.waiters.empty()) return;
  refuse_waiters(model, RouteRefusal::Reason::kUnavailable,
                 fmt::format("{} cannot be served: {}", model.spec.uid, model.message), 30);
}

void FleetOwner::suspect(const std::string& uid, uint64_t life) {
  const auto found = find(uid);
  if (!found) return;
  for (FleetReplica& replica : (*found)->replicas) {
    if (replica.life != life) continue;
    replica.asked_ms = 0;
    if (FleetNode* node = find_node(replica.node)) node->asked_ms = 0;
  }
}

std::chrono::milliseconds FleetOwner::sleep_time() const {
  int64_t time = 500;
  for (const auto& model : models_) {
    if (model->pull || !model->waiters.empty()) time = std::min<int64_t>(time, 100);
    for (const FleetReplica& replica : model->replicas) {
      if (replica.plan.state == ReplicaState::kLoading) time = std::min<int64_t>(time, 20);
      if (replica.plan.state == ReplicaState::kDraining) time = std::min<int64_t>(time, 50);
      if (replica.plan.state == ReplicaState::kBackoff || replica.plan.state == ReplicaState::kWaiting) {
        time = std::min<int64_t>(time, 100);
      }
    }
  }
  return std::chrono::milliseconds(time);
}

// A stretch in which this thread did not run says nothing of the workers: it is taken out of their times.
void FleetOwner::forgive_own_pause() {
  const int64_t now = steady_ms();
  const int64_t pause = now - std::exchange(last_turn_ms_, now);
  if (pause < kPauseMs || pause == now) return;
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      replica.plan.since_ms += pause;
      replica.plan.answered_ms += pause;
      if (replica.plan.terminated_ms > 0) replica.plan.terminated_ms += pause;
    }
  }
  for (const auto& node : nodes_) {
    node->heard_ms += pause;
    node->answered_ms += pause;
  }
}

void FleetOwner::turn() {
  forgive_own_pause();
  std::vector<std::function<void()>> mail;
  {
    const std::lock_guard lock(shared_->mail_mutex);
    mail.swap(shared_->mail);
  }
  for (const auto& task : mail) task();
  poll_workers();
  watch_nodes();
  if (steady_ms() - measured_ms_ >= 1000) measure();
  decide();
  // Before requests go on: who has a lease finds its replica ready.
  if (changed_) publish();
  for (const auto& model : models_) serve_waiters(*model);
  ask_workers();
  if (unsaved_ && steady_ms() >= save_retry_ms_) save_all();
  if (changed_) publish();
  for (auto& [reply, result] : replies_) reply(std::move(result));
  replies_.clear();
}

void FleetOwner::run() {
  while (!stopping_) {
    turn();
    std::vector<int> files;
    for (const auto& model : models_) {
      if (model->pull) files.push_back(model->pull->fd());
      for (const FleetReplica& replica : model->replicas) {
        if (replica.process) files.push_back(replica.process->fd());
      }
    }
    {
      const std::lock_guard lock(shared_->mail_mutex);
      if (!shared_->mail.empty()) continue;
    }
    for (const WorkerProbes::Answer& answer : probes_->wait(files, sleep_time())) answered(answer);
  }
  shut_down();
}

void FleetOwner::stop() {
  shared_->post([this] { stopping_ = true; });
}

void FleetOwner::shut_down() {
  std::vector<std::function<void()>> mail;
  {
    const std::lock_guard lock(shared_->mail_mutex);
    shared_->closed = true;
    mail.swap(shared_->mail);
  }
  for (const auto& task : mail) task();
  for (auto& [reply, result] : replies_) reply(std::move(result));
  replies_.clear();
  for (const auto& model : models_) {
    refuse_waiters(*model, RouteRefusal::Reason::kUnavailable, "the server stops", 0);
    if (model->pull) model->pull->kill_group();
    if (!options_.stop_workers_at_end) continue;
    for (FleetReplica& replica : model->replicas) {
      if (replica.process) replica.process->terminate();
    }
  }
  if (!options_.stop_workers_at_end) return;
  const int64_t deadline = steady_ms() + std::min<int64_t>(kStopGraceMs, options_.drain_timeout.count());
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      if (!replica.process) continue;
      bool killed = false;
      while (!replica.process->poll_end()) {
        const int fd = replica.process->fd();
        const int64_t left = deadline - steady_ms();
        if (left <= 0 && !std::exchange(killed, true)) replica.process->kill_group();
        probes_->wait({&fd, 1}, std::chrono::milliseconds(std::max<int64_t>(10, left)));
      }
      clean_up(*model, replica);
    }
  }
}

}  // namespace quern
