// What the planner says, done.
#include <algorithm>

#include "base/status.h"
#include "platform/fleet/fleet_owner.h"

namespace quern {
namespace {

// So old may be what another machine says of its devices: its agent's interval and the time of its tools.
constexpr int64_t kNodeInventoryMs = 25000;
constexpr int32_t kPlansMax = 16;  // in a row: an action may call for the next

int64_t whole_milliseconds(double seconds) {
  return seconds < 0 ? -1 : static_cast<int64_t>(seconds * 1000);
}

PlanModel plan_model(const FleetModel& model, const Router& router) {
  const bool elsewhere = model.spec.engine == "openai";
  PlanModel plan{.replicas = model.spec.replicas,
                 .priority = model.spec.priority,
                 .pinned = model.spec.pinned,
                 .awake = model.awake,
                 .leaving = model.leaving,
                 .keep_alive_ms = whole_milliseconds(model.spec.keep_alive_s),
                 .needs_bytes = model.facts.memory_estimate,
                 .device = elsewhere ? "" : "cpu",
                 .num_devices = devices_of_one_replica(model.spec),
                 .kinds = free_device_kinds(model.spec),
                 .device_fraction = device_fraction(model.spec),
                 .files = model.files,
                 .files_retry_ms = model.files_retry_ms,
                 .suits = {},
                 .last_used_ms = std::max(router.last_used_ms(model.spec.uid), model.woken_ms),
                 .demand_ms = model.demand_ms,
                 .waiting = static_cast<int32_t>(model.waiters.size()),
                 .rows = {}};
  for (const FleetReplica& replica : model.replicas) {
    PlanReplica row = replica.plan;
    row.in_flight = router.load(model.spec.uid, replica.id).in_flight;
    row.bytes = replica.devices.empty() ? replica.memory.own : 0;
    row.devices = replica.devices;
    row.wish = wished_devices(model.spec, replica_number(replica.id));
    plan.rows.push_back(row);
  }
  return plan;
}

}  // namespace

PlanInput FleetOwner::plan_input() {
  PlanInput input{.now_ms = steady_ms(),
                  .budget_bytes = budget_bytes_,
                  .devices = plan_devices("", devices_, devices_ms_),
                  .knows_devices = knows_devices_,
                  .drains = drains_here_,
                  .nodes = {},
                  .loads_max = options_.loads_max,
                  .health_timeout_ms = options_.health_timeout.count(),
                  .start_timeout_ms = options_.start_timeout.count(),
                  .drain_timeout_ms = options_.drain_timeout.count(),
                  .models = {}};
  for (const auto& node : nodes_) {
    input.nodes.push_back({.budget_bytes = node->join.machine.memory_budget,
                           .devices = plan_devices(node->join.name, node->devices, input.now_ms - kNodeInventoryMs),
                           .knows_devices = knows_devices(node->join.machine),
                           .is_ready = is_ready(*node),
                           .drains = node->drains});
  }
  const std::lock_guard lock(shared_->router_mutex);
  for (const auto& model : models_) {
    PlanModel plan = plan_model(*model, shared_->router);
    plan.suits = suitable_places(*model, /*with_devices=*/true);
    if (!device_ids(model->spec.device).empty()) plan.keeps = suitable_places(*model, /*with_devices=*/false);
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      plan.rows[i].place = std::max(0, place_of(model->replicas[i].node));
      plan.rows[i].failed_place = place_of(model->replicas[i].failed_node);
    }
    input.models.push_back(std::move(plan));
  }
  return input;
}

void FleetOwner::decide() {
  for (int32_t i = 0; i < kPlansMax; ++i) {
    const std::vector<PlanAction> actions = plan_fleet(plan_input());
    // Rows and models that go away do so last, the later first, so that indices stay what the planner meant.
    std::vector<const PlanAction*> removals;
    bool again = false;
    for (const PlanAction& action : actions) {
      if (action.kind == PlanAction::Kind::kRemove || action.kind == PlanAction::Kind::kForget) {
        removals.push_back(&action);
      } else {
        apply(action);
      }
      again |= action.kind != PlanAction::Kind::kWaits;
    }
    std::ranges::sort(removals, [](const PlanAction* a, const PlanAction* b) {
      return std::pair(a->model_idx, a->row_idx) > std::pair(b->model_idx, b->row_idx);
    });
    for (const PlanAction* action : removals) apply(*action);
    if (!again) return;
  }
}

void FleetOwner::apply(const PlanAction& action) {
  using Kind = PlanAction::Kind;
  FleetModel& model = *models_[action.model_idx];
  FleetReplica* replica = action.row_idx < 0 ? nullptr : &model.replicas[action.row_idx];
  const auto set_state = [&](ReplicaState state) {
    replica->plan.state = state;
    replica->plan.since_ms = steady_ms();
    replica->message = action.reason;
    changed_ = true;
  };
  switch (action.kind) {
    case Kind::kAdd: return add_replica(model);
    case Kind::kRemove: return remove_replica(model, action.row_idx);
    case Kind::kWake: return set_state(ReplicaState::kWaiting);
    case Kind::kRest: return set_state(ReplicaState::kStopped);
    case Kind::kPull: return start_pull(model);
    case Kind::kStart:
      if (action.place == 0) return start_worker(model, *replica, action.devices);
      return start_on_node(model, *replica, *nodes_[static_cast<size_t>(action.place) - 1], action.devices);
    case Kind::kForget: return forget(model);
    case Kind::kForgive: replica->plan.failures = 0; return;
    case Kind::kUnload:
      set_awake(model, false);
      return event(model, "", "unloaded", fmt::format("no request for {} s", model.spec.keep_alive_s));
    case Kind::kEvict: set_awake(model, false); return event(model, "", "evicted", action.reason);
    case Kind::kWaits:
      changed_ |= std::exchange(replica->message, action.reason) != action.reason;
      if (replica->plan.state == ReplicaState::kPulling && model.files == FilesState::kHere) {
        set_state(ReplicaState::kWaiting);
      }
      return;
    case Kind::kDrain: {
      set_state(ReplicaState::kDraining);
      const std::lock_guard lock(shared_->router_mutex);
      return shared_->router.set_gone(model.spec.uid, replica->id);
    }
    case Kind::kTerminate:
      replica->plan.terminated_ms = steady_ms();
      if (replica->process) return replica->process->terminate();
      if (!replica->node.empty()) return;  // its node is told no more of it, and says when it is gone
      return worker_ended(model, *replica, {.text = "let go"});
    case Kind::kKill: {
      replica->plan.killed = true;
      {
        const std::lock_guard lock(shared_->router_mutex);
        shared_->router.set_gone(model.spec.uid, replica->id);
      }
      if (!model.leaving) {
        event(model, replica->id, replica->plan.state == ReplicaState::kReady ? "stuck" : "killed", action.reason);
      }
      replica->message = action.reason;
      if (replica->process) return replica->process->kill_group();
      return worker_ended(model, *replica, {.text = action.reason});
    }
  }
}

void FleetOwner::set_awake(FleetModel& model, bool awake) {
  model.awake = awake;
  model.failed = false;
  if (awake) model.woken_ms = steady_ms();
  changed_ = true;
  stored(save(model));
}

void FleetOwner::add_replica(FleetModel& model) {
  FleetReplica replica;
  for (int32_t number = 0;; ++number) {
    replica.id = fmt::format("{}-{}", model.spec.uid, number);
    if (std::ranges::find(model.replicas, replica.id, &FleetReplica::id) == model.replicas.end()) break;
  }
  replica.digest = model.digest;
  replica.plan.state = model.awake ? ReplicaState::kWaiting : ReplicaState::kStopped;
  replica.plan.since_ms = steady_ms();
  replica.log_file = options_.folder / "logs" / log_file_name(replica.id);
  model.replicas.push_back(std::move(replica));
  changed_ = true;
}

void FleetOwner::remove_replica(FleetModel& model, size_t row_idx) {
  std::error_code ignored;
  const FleetReplica& replica = model.replicas[row_idx];
  if (!replica.node.empty() && !model.leaving) stored(store_->remove_worker(replica.id));
  for (const char* suffix : {"", ".1"}) {
    std::filesystem::remove(model.replicas[row_idx].log_file.string() + suffix, ignored);
  }
  model.replicas.erase(model.replicas.begin() + static_cast<std::ptrdiff_t>(row_idx));
  changed_ = true;
}

void FleetOwner::forget(FleetModel& model) {
  if (model.pull) return;  // its end is waited for
  const std::string uid = model.spec.uid;
  std::error_code ignored;
  std::filesystem::remove(model.pull_log, ignored);
  std::erase_if(models_, [&](const auto& one) { return one.get() == &model; });
  note(fmt::format("{}: terminated", uid));
  changed_ = true;
  {
    const std::lock_guard lock(shared_->router_mutex);
    shared_->router.remove_model(uid);
  }
  const std::lock_guard lock(shared_->view_mutex);
  std::erase_if(shared_->events, [&](const FleetEvent& event) { return event.uid == uid; });
}

void FleetOwner::start_pull(FleetModel& model) {
  if (model.facts.model.empty()) {
    // A path of the user's, or a name that could not be read at the start: looked for again.
    auto facts = read_model_facts(model.spec);
    if (!facts) return pull_failed(model, facts.error().message, true);
    model.facts = std::move(*facts);
    if (!model.facts.path.empty()) {
      model.files = FilesState::kHere;
      return;
    }
  }
  model.pull_log = options_.folder / "logs" / log_file_name("pull " + model.spec.uid);
  std::error_code ignored;
  std::filesystem::remove(model.pull_log, ignored);
  // A process of its own: it can be cancelled by a signal, and what a hub sends hurts nobody here.
  WorkerCommand command = worker_command(model.spec, {.mark = mark("pull " + model.spec.uid)});
  auto pull = WorkerProcess::start({.argv = {options_.program.string(), "pull", "--progress", model.facts.model},
                                    .environment = std::move(command.environment),
                                    .log_file = model.pull_log});
  if (!pull) return pull_failed(model, pull.error().message, false);
  model.pull = std::move(*pull);
  model.files = FilesState::kPulling;
  model.files_progress = 0;
  for (FleetReplica& replica : model.replicas) {
    if (replica.plan.state == ReplicaState::kWaiting) replica.plan.state = ReplicaState::kPulling;
  }
  event(model, "", "pulling", model.facts.model);
}

void FleetOwner::poll_pull(FleetModel& model) {
  const std::string line = last_log_line(model.pull_log);
  // "pulling FILE: 12% of 300.0 MiB"
  if (const size_t percent = line.find("% of "); percent != std::string::npos) {
    const size_t begin = line.rfind(' ', percent) + 1;
    const double progress = std::strtod(line.c_str() + begin, nullptr) / 100;
    changed_ |= std::exchange(model.files_progress, progress) != progress;
    model.message = line;
  }
  const auto end = model.pull->poll_end();
  if (!end) return;
  model.pull.reset();
  if (model.leaving) return;
  if (end->exit_code != 0) return pull_failed(model, line.empty() ? end->text : line, end->exit_code == 2);
  auto facts = read_model_facts(model.spec);
  if (!facts) return pull_failed(model, facts.error().message, true);
  if (facts->path.empty()) return pull_failed(model, "it is not where it was pulled to", false);
  model.facts = std::move(*facts);
  model.files = FilesState::kHere;
  model.files_failures = 0;
  model.message.clear();
  for (FleetReplica& replica : model.replicas) {
    if (replica.plan.state == ReplicaState::kPulling) replica.plan.state = ReplicaState::kWaiting;
  }
  event(model, "", "pulled", model.facts.path);
}

void FleetOwner::pull_failed(FleetModel& model, const std::string& why, bool is_final) {
  model.files = FilesState::kBackoff;
  // What the caller has to mend is looked at seldom.
  model.files_failures = is_final ? 8 : model.files_failures + 1;
  model.files_retry_ms = steady_ms() + backoff_ms(model.files_failures);
  model.message = why;
  model.failed = model.files_failures >= 3;
  for (FleetReplica& replica : model.replicas) {
    if (replica.plan.state == ReplicaState::kPulling) replica.plan.state = ReplicaState::kWaiting;
  }
  event(model, "", "failed", why);
}

}  // namespace quern
