// What readers see of the fleet's state.
#include <algorithm>

#include "platform/fleet/fleet_owner.h"

namespace quern {
namespace {

ModelState state_of(const FleetModel& model) {
  if (model.leaving) return ModelState::kTerminating;
  const auto any = [&](ReplicaState state) {
    return std::ranges::any_of(model.replicas,
                               [&](const FleetReplica& one) { return one.plan.state == state && !one.plan.killed; });
  };
  if (any(ReplicaState::kReady)) return ModelState::kReady;
  if (model.failed) return ModelState::kError;
  if (!model.awake) return ModelState::kReady;  // idle
  if (any(ReplicaState::kLoading)) return ModelState::kLoading;
  return ModelState::kCreating;
}

// Downloading is most of the way where there is something to download; then memory fills up.
double progress_of(const FleetModel& model, const FleetReplica& replica) {
  const double start = model.pull || !model.pull_log.empty() ? 0.8 : 0;
  switch (replica.plan.state) {
    case ReplicaState::kReady:
    case ReplicaState::kDraining: return 1;
    case ReplicaState::kPulling: return start * model.files_progress;
    case ReplicaState::kLoading: {
      if (!replica.node.empty()) return replica.node_progress;
      const double needs = static_cast<double>(std::max<int64_t>(1, model.facts.memory_estimate));
      return start + (1 - start) * std::min(0.95, static_cast<double>(replica.memory.resident) / needs);
    }
    default: return model.files == FilesState::kHere ? start : start * model.files_progress;
  }
}

}  // namespace

ReplicaView FleetOwner::view_of(const FleetModel& model, const FleetReplica& replica) const {
  const bool is_told = !replica.node.empty() && replica.plan.state == ReplicaState::kLoading;
  return {.id = replica.id,
          .state = is_told ? replica.node_state : replica.plan.state,
          .node = replica.node.empty() ? kThisNode : replica.node,
          .address = std::string(address_without_pin(replica.address)),
          .pid = replica.process ? replica.process->id().pid : replica.node_pid,
          .restarts = replica.restarts,
          .in_flight = 0,
          .memory_bytes = replica.memory.resident,
          .load_seconds = replica.load_seconds,
          .progress = progress_of(model, replica),
          .message = replica.message,
          .devices = replica.devices,
          .log_file = replica.node.empty() ? replica.log_file : std::filesystem::path()};
}

ModelView FleetOwner::view_of(const FleetModel& model) const {
  const ModelFacts& facts = model.facts;
  ModelView view{.spec = model.spec,
                 .state = state_of(model),
                 .created = model.created,
                 .memory_estimate = facts.memory_estimate,
                 .message = model.message,
                 .model = facts.path.empty() ? facts.model : facts.path,
                 .family = facts.family,
                 .format = facts.format,
                 .quantization = facts.quantization,
                 .size = facts.size,
                 .abilities = facts.abilities,
                 .context = facts.context,
                 .dimensions = facts.dimensions,
                 .replicas = {}};
  if (view.spec.model_type.empty()) view.spec.model_type = facts.type;
  for (const FleetReplica& replica : model.replicas) view.replicas.push_back(view_of(model, replica));
  const bool serves = std::ranges::any_of(
      view.replicas, [](const ReplicaView& replica) { return replica.state == ReplicaState::kReady; });
  view.idle = !model.awake && !model.leaving && !serves;
  // As far as the first that will serve.
  for (const ReplicaView& replica : view.replicas) view.progress = std::max(view.progress, replica.progress);
  if (view.message.empty() && !view.replicas.empty() && !serves) view.message = view.replicas.front().message;
  return view;
}

void FleetOwner::publish() {
  auto views = std::make_shared<std::vector<ModelView>>();
  for (const auto& model : models_) views->push_back(view_of(*model));
  std::vector<NodeView> nodes = node_views();
  std::map<std::string, std::vector<WorkerWay>> ways;
  for (const auto& model : models_) {
    for (const FleetReplica& one : model->replicas) {
      if (one.address.empty()) continue;
      ways[model->spec.uid].push_back({.replica = one.id,
                                       .node = one.node.empty() ? kThisNode : one.node,
                                       .address = one.address,
                                       .base_path = one.base_path,
                                       .api_key = one.api_key,
                                       .model = one.model,
                                       .engine = one.node.empty() ? one.engine : "quern",
                                       .ready = one.plan.state == ReplicaState::kReady && !one.plan.killed,
                                       .life = one.life});
    }
  }
  const std::lock_guard lock(shared_->view_mutex);
  shared_->views = std::move(views);
  shared_->nodes = std::move(nodes);
  shared_->ways = std::move(ways);
  shared_->memory_budget = budget_bytes_;
  changed_ = false;
}

}  // namespace quern
