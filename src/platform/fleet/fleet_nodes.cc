// Other machines: who has joined, what they tell, what they are told to run, and what follows when one is not heard.
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>

#include "base/status.h"
#include "platform/fleet/fleet_owner.h"

namespace quern {
namespace {

// Of a run of a replica on a node: no other has had it.
std::string random_run() {
  uint32_t noise[2] = {};
  if (::getrandom(noise, sizeof noise, 0) != sizeof noise) std::abort();  // since Linux 3.17
  return fmt::format("{:08x}{:04x}", noise[0], noise[1] & 0xffff);
}

bool same_key(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

void FleetOwner::restore_nodes(const std::vector<StoredNodeRow>& rows) {
  for (const StoredNodeRow& row : rows) {
    if (row.join.name == kThisNode) {
      drains_here_ = row.drains;
      continue;
    }
    auto node = std::make_unique<FleetNode>();
    node->join = row.join;
    node->devices.found = device_memories(row.join.machine.devices);
    node->drains = row.drains;
    // It has twice the health timeout to be heard again: its agent tries every two seconds.
    node->lost = false;
    node->heard_ms = node->answered_ms = steady_ms() + options_.health_timeout.count();
    node->life = ++shared_->life;  // before the thread runs
    nodes_.push_back(std::move(node));
  }
}

FleetNode* FleetOwner::find_node(const std::string& name) {
  const auto it = std::ranges::find_if(nodes_, [&](const auto& node) { return node->join.name == name; });
  return it == nodes_.end() ? nullptr : it->get();
}

int32_t FleetOwner::place_of(const std::string& node) const {
  if (node == kThisNode) return 0;
  const auto it = std::ranges::find_if(nodes_, [&](const auto& one) { return one->join.name == node; });
  return it == nodes_.end() ? -1 : static_cast<int32_t>(it - nodes_.begin()) + 1;
}

std::vector<bool> FleetOwner::suitable_places(const FleetModel& model, bool with_devices) const {
  LaunchSpec anywhere;
  if (!with_devices) {  // a look that misses one moves nobody who is there
    anywhere = model.spec;
    anywhere.device = "auto";
  }
  const LaunchSpec& spec = with_devices ? model.spec : anywhere;
  std::vector<bool> suits = {model.runs_here && has_wished_devices(spec)};
  for (const auto& node : nodes_) suits.push_back(node_suits(node->join, spec));
  return suits;
}

bool FleetOwner::suits_any_node(const LaunchSpec& spec) const {
  return std::ranges::any_of(nodes_, [&](const auto& node) { return node_suits(node->join, spec); });
}

void FleetOwner::join(NodeJoin join, Reply reply) {
  const auto refuse = [&](Error error) { replies_.emplace_back(std::move(reply), std::unexpected(std::move(error))); };
  const std::string name = join.name;
  FleetNode* node = find_node(name);
  if (node != nullptr && is_ready(*node) && !same_key(node->join.key, join.key)) {
    return refuse({ErrorCode::kPermissionDenied, fmt::format("name: {} is another machine that is here", name)});
  }
  if (node == nullptr && nodes_.size() >= kNodesMax) {
    return refuse({ErrorCode::kResourceExhausted, fmt::format("{} machines have joined, no more may", kNodesMax)});
  }
  const bool drains = node != nullptr && node->drains;
  const bool moved = node != nullptr && (node->join.address != join.address || node->join.key != join.key);
  if (const Status status = store_->put_node({.join = join, .drains = drains}); !status) return refuse(status.error());
  if (node == nullptr) {
    const auto at = std::ranges::find_if(nodes_, [&](const auto& one) { return one->join.name > name; });
    node = nodes_.insert(at, std::make_unique<FleetNode>())->get();
  }
  if (moved && !node->lost) lose(*node, "it has joined anew");
  node->join = std::move(join);
  node->devices.found = device_memories(node->join.machine.devices);
  node->asked_ms = 0;
  node->heard_ms = steady_ms();
  // One that nobody has reached yet has to answer first.
  if (node->lost) node->answered_ms = node->heard_ms - options_.health_timeout.count();
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      if (replica.node != name) continue;
      replica.address = node->join.address;
      replica.api_key = node->join.key;
    }
  }
  if (node->life != 0) probes_->forget(node->life);
  {
    const std::lock_guard lock(shared_->router_mutex);
    node->life = ++shared_->life;
  }
  note(fmt::format("machine {}: joined, {}", name, address_without_pin(node->join.address)));
  changed_ = true;
  replies_.emplace_back(std::move(reply), name);
}

void FleetOwner::start_on_node(FleetModel& model, FleetReplica& replica, FleetNode& node,
                               std::vector<std::string> devices) {
  replica.node = node.join.name;
  replica.devices = std::move(devices);
  replica.address = node.join.address;
  replica.base_path.clear();
  replica.api_key = node.join.key;
  replica.model = node_replica_name(replica.id, random_run());
  replica.health_path.clear();
  replica.node_state = ReplicaState::kWaiting;
  replica.node_progress = 0;
  begin_load(model, replica);
  stored(store_->put_worker(stored_row(model, replica)));
  event(model, replica.id, replica.restarts > 0 ? "restarting" : "loading", "on " + node.join.name);
}

void FleetOwner::adopt_on_node(const StoredWorkerRow& row, FleetModel& model) {
  const FleetNode* node = find_node(row.node);
  if (node == nullptr) {
    stored(store_->remove_worker(row.replica));
    return;
  }
  FleetReplica replica;
  replica.id = row.replica;
  replica.node = row.node;
  replica.address = node->join.address;
  replica.api_key = node->join.key;
  replica.model = row.model;
  replica.digest = row.digest;
  if (row.digest == model.digest) {
    replica.engine = model.spec.engine;
    replica.adapters = model.spec.adapters;
  }
  replica.started_ms = row.started_ms;
  replica.devices = adopted_devices(row, model);
  replica.adopted = true;
  replica.log_file = options_.folder / "logs" / log_file_name(replica.id);
  replica.life = ++shared_->life;  // before the thread runs
  replica.plan.state = ReplicaState::kLoading;
  replica.plan.since_ms = steady_ms();
  replica.plan.current = row.digest == model.digest;
  replica.plan.dismissed = row.dismissed;
  model.replicas.push_back(std::move(replica));
}

void FleetOwner::watch_nodes() {
  const int64_t now = steady_ms(), timeout = options_.health_timeout.count();
  for (const auto& node : nodes_) {
    const bool silent = now - node->heard_ms >= timeout, closed = now - node->answered_ms >= timeout;
    if (!node->lost && (silent || closed)) {
      const std::string address(address_without_pin(node->join.address));
      lose(*node, silent ? "it is not heard" : fmt::format("its address {} does not answer", address));
    }
    if (probes_->is_asking(node->life) || now - node->asked_ms < options_.health_interval.count()) continue;
    node->asked_ms = now;
    probes_->ask(node->life,
                 {.address = node->join.address, .path = "/health", .api_key = node->join.key, .direct = true},
                 options_.health_timeout);
  }
}

bool FleetOwner::node_answered(const WorkerProbes::Answer& answer) {
  for (const auto& node : nodes_) {
    if (node->life != answer.id) continue;
    if (answer.status == 200) node->answered_ms = steady_ms();
    return true;
  }
  return false;
}

// What was there serves no more, and is wished elsewhere.
void FleetOwner::lose(FleetNode& node, const std::string& why) {
  node.lost = true;
  changed_ = true;
  note(fmt::format("machine {}: lost, {}", node.join.name, why));
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      const ReplicaState state = replica.plan.state;
      if (replica.node != node.join.name || state == ReplicaState::kLost || state == ReplicaState::kDraining) continue;
      {
        const std::lock_guard lock(shared_->router_mutex);
        shared_->router.set_gone(model->spec.uid, replica.id);
      }
      replica.plan.state = ReplicaState::kLost;
      replica.plan.since_ms = steady_ms();
      replica.message = fmt::format("machine {} is lost: {}", node.join.name, why);
      event(*model, replica.id, "lost", fmt::format("machine {}: {}", node.join.name, why));
    }
  }
}

Status FleetOwner::check_node_key(const std::string& name, const std::string& key) {
  const FleetNode* node = find_node(name);
  if (node != nullptr && same_key(node->join.key, key)) return {};
  return make_error(ErrorCode::kPermissionDenied, fmt::format("{}: no machine of this name and key has joined", name));
}

void FleetOwner::heartbeat(const std::string& name, const std::string& key, NodeReport report, const WishReply& reply) {
  if (const Status known = check_node_key(name, key); !known) return reply(std::unexpected(known.error()));
  FleetNode* node = find_node(name);
  const int64_t now = steady_ms();
  node->heard = true;
  node->heard_ms = now;
  node->join.machine = std::move(report.machine);
  node->devices.found = device_memories(node->join.machine.devices);
  if (node->lost && now - node->answered_ms < options_.health_timeout.count()) {
    node->lost = false;
    note(fmt::format("machine {}: is here", name));
  }
  changed_ = true;
  if (!node->lost) {
    std::map<std::string, const NodeReplica*> told_by_name;
    for (const NodeReplica& one : report.replicas) told_by_name[one.name] = &one;
    for (const auto& model : models_) {
      for (FleetReplica& replica : model->replicas) {
        if (replica.node != name) continue;
        const auto it = told_by_name.find(replica.model);
        told(*node, *model, replica, it == told_by_name.end() ? nullptr : it->second);
      }
    }
  }
  decide();  // what has just ended is not asked for again
  reply(wishes_for(*node));
}

// `report` is null when the node has no such replica.
void FleetOwner::told(FleetNode& node, FleetModel& model, FleetReplica& replica, const NodeReplica* report) {
  PlanReplica& plan = replica.plan;
  if (report == nullptr) {
    if (plan.state == ReplicaState::kDraining) return worker_ended(model, replica, {.text = "on " + node.join.name});
    // It may not have been told yet.
    if (plan.state == ReplicaState::kLoading && !replica.adopted) return;
    return worker_failed(model, replica, fmt::format("machine {} does not have it any more", node.join.name), false);
  }
  const bool same_process = report->pid != 0 && report->pid == replica.node_pid;
  replica.node_pid = report->pid;
  replica.memory = {.resident = report->memory_bytes, .own = report->memory_bytes};
  replica.node_progress = report->progress;
  replica.node_state = report->state;
  const bool ready = report->state == ReplicaState::kReady;
  if (plan.state == ReplicaState::kLost) {
    // A new life: the router has forgotten the old one's failures.
    plan.state = ReplicaState::kLoading;
    plan.since_ms = steady_ms();
    replica.adopted = true;
    const std::lock_guard lock(shared_->router_mutex);
    replica.life = ++shared_->life;
  } else if (plan.state == ReplicaState::kReady && !ready) {
    const std::string why = report->message.empty() ? "its process ended" : report->message;
    plan.state = ReplicaState::kLoading;
    plan.since_ms = steady_ms();
    // An agent that has started again takes its processes over.
    replica.adopted = same_process;
    if (!same_process) {
      ++replica.restarts;
      event(model, replica.id, "died", fmt::format("on {}: {}", node.join.name, why));
    }
    const std::lock_guard lock(shared_->router_mutex);
    shared_->router.set_gone(model.spec.uid, replica.id);
    replica.life = ++shared_->life;
  }
  if (plan.state == ReplicaState::kReady) plan.answered_ms = steady_ms();
  if (plan.state != ReplicaState::kLoading || plan.killed) return;
  if (ready) {
    became_ready(model, replica);
    replica.load_seconds = report->load_seconds;
    return;
  }
  if (report->failed) {
    return worker_failed(model, replica, fmt::format("machine {}: {}", node.join.name, report->message), false);
  }
  replica.message = report->message;
  // A download takes the time it takes.
  if (report->state == ReplicaState::kPulling) plan.since_ms = steady_ms();
}

std::vector<NodeWish> FleetOwner::wishes_for(const FleetNode& node) const {
  std::vector<NodeWish> wishes;
  for (const auto& model : models_) {
    for (const FleetReplica& replica : model->replicas) {
      const PlanReplica& plan = replica.plan;
      const bool runs = plan.is_live() || plan.state == ReplicaState::kLost;
      if (replica.node != node.join.name || !runs || plan.killed || plan.terminated_ms > 0) continue;
      NodeWish wish{.name = replica.model, .spec = std::nullopt};
      if (replica.digest == model->digest && !model->leaving) {
        wish.spec = model->spec;
        wish.spec->device = device_of(*model, replica);
      }
      wishes.push_back(std::move(wish));
    }
  }
  return wishes;
}

void FleetOwner::set_node_draining(const std::string& name, bool draining, Reply reply) {
  FleetNode* node = find_node(name);
  if (node == nullptr && name != kThisNode) {
    return replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such machine", name))), void();
  }
  StoredNodeRow row{.join = {}, .drains = draining};
  row.join.name = kThisNode;
  if (node != nullptr) row.join = node->join;
  if (const Status status = store_->put_node(row); !status) {
    return replies_.emplace_back(std::move(reply), std::unexpected(status.error())), void();
  }
  (node != nullptr ? node->drains : drains_here_) = draining;
  note(fmt::format("machine {}: {}", name, draining ? "drains" : "takes replicas again"));
  changed_ = true;
  replies_.emplace_back(std::move(reply), name);
}

void FleetOwner::remove_node(const std::string& name, Reply reply) {
  if (name == kThisNode) {
    return replies_.emplace_back(std::move(reply), invalid_argument("name: this machine stays; it can drain")), void();
  }
  FleetNode* node = find_node(name);
  if (node == nullptr) {
    return replies_.emplace_back(std::move(reply), not_found(fmt::format("{}: no such machine", name))), void();
  }
  if (const Status status = store_->remove_node(name); !status) {
    return replies_.emplace_back(std::move(reply), std::unexpected(status.error())), void();
  }
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      if (replica.node != name) continue;
      if (replica.plan.state == ReplicaState::kDraining) {
        worker_ended(*model, replica, {.text = "its machine was removed"});
        continue;
      }
      worker_failed(*model, replica, fmt::format("machine {} was removed", name), false);
    }
  }
  probes_->forget(node->life);
  std::erase_if(nodes_, [&](const auto& one) { return one.get() == node; });
  note(fmt::format("machine {}: removed", name));
  changed_ = true;
  replies_.emplace_back(std::move(reply), name);
}

std::vector<NodeView> FleetOwner::node_views() const {
  std::vector<NodeView> views;
  NodeView here;
  here.name = kThisNode;
  here.state = drains_here_ ? NodeState::kDraining : NodeState::kReady;
  here.local = true;
  views.push_back(std::move(here));
  const int64_t now = steady_ms();
  for (const auto& node : nodes_) {
    NodeView view;
    view.name = node->join.name;
    view.state = !is_ready(*node) ? NodeState::kLost : node->drains ? NodeState::kDraining : NodeState::kReady;
    view.address = std::string(address_without_pin(node->join.address));
    view.labels = node->join.labels;
    view.machine = node->join.machine;
    view.last_seen_s = static_cast<double>(std::max<int64_t>(0, now - node->heard_ms)) / 1000;
    if (view.state == NodeState::kLost) {
      const bool silent = !node->heard || now - node->heard_ms >= options_.health_timeout.count();
      view.message = silent ? "it is not heard" : "its address does not answer this server";
    }
    views.push_back(std::move(view));
  }
  for (const auto& model : models_) {
    for (const FleetReplica& replica : model->replicas) {
      const bool runs = replica.plan.is_live() || replica.plan.state == ReplicaState::kLost;
      if (runs) views[static_cast<size_t>(std::max(0, place_of(replica.node)))].replicas.push_back(replica.id);
    }
  }
  return views;
}

}  // namespace quern
