#include "platform/fleet/router.h"

#include <algorithm>

namespace quern {
namespace {

// Markedly more to do: the cache is worth a short queue, not a long one.
bool is_overloaded(int32_t in_flight, int32_t least) {
  return in_flight > 2 * least + 4;
}

const AdapterCall* find_call(const RouteTarget& target, const std::string& adapter) {
  if (!target.adapters) return nullptr;
  const auto it = target.adapters->find(adapter);
  return it == target.adapters->end() ? nullptr : &it->second;
}

}  // namespace

void Router::set_model(const std::string& uid, int32_t request_limit, const std::vector<std::string>& adapters) {
  Model& model = models_[uid];
  model.request_limit = request_limit;
  if (model.adapters == adapters) return;
  forget_adapters(uid, model);
  model.adapters = adapters;
  for (const std::string& name : adapters) adapters_[name].push_back(uid);
}

void Router::forget_adapters(const std::string& uid, const Model& model) {
  for (const std::string& name : model.adapters) {
    const auto it = adapters_.find(name);
    if (it == adapters_.end()) continue;
    std::erase(it->second, uid);
    if (it->second.empty()) adapters_.erase(it);
  }
}

std::optional<ServedName> Router::resolve(const std::string& name) const {
  if (knows(name)) return ServedName{.uid = name, .adapter = {}};
  if (adapters_.empty()) return std::nullopt;
  if (const auto it = adapters_.find(name); it != adapters_.end()) {
    for (const std::string& uid : it->second) {
      if (knows(uid)) return ServedName{.uid = uid, .adapter = name};
    }
  }
  // Both sides of UID:NAME may have colons of their own.
  for (size_t at = name.find(':'); at != std::string::npos; at = name.find(':', at + 1)) {
    ServedName parts{.uid = name.substr(0, at), .adapter = name.substr(at + 1)};
    const auto it = adapters_.find(parts.adapter);
    if (it != adapters_.end() && std::ranges::find(it->second, parts.uid) != it->second.end() && knows(parts.uid))
      return parts;
  }
  return std::nullopt;
}

void Router::close_model(const std::string& uid) {
  const auto it = models_.find(uid);
  if (it != models_.end()) it->second.closed = true;
}

bool Router::knows(const std::string& uid) const {
  const auto it = models_.find(uid);
  return it != models_.end() && !it->second.closed;
}

void Router::remove_model(const std::string& uid) {
  const auto it = models_.find(uid);
  if (it == models_.end()) return;
  forget_adapters(uid, it->second);
  models_.erase(it);
}

void Router::set_ready(const std::string& uid, const RouteTarget& target, uint64_t life) {
  Model& model = models_[uid];
  Replica& replica = model.replicas[target.replica];
  if (replica.life != life) replica = Replica{};
  replica.target = target;
  replica.life = life;
  replica.ready = true;
}

void Router::set_gone(const std::string& uid, const std::string& replica) {
  const auto model = models_.find(uid);
  if (model == models_.end()) return;
  const auto it = model->second.replicas.find(replica);
  if (it == model->second.replicas.end()) return;
  it->second.ready = false;
  if (it->second.in_flight == 0) model->second.replicas.erase(it);
}

bool Router::admit(const std::string& uid) {
  const auto it = models_.find(uid);
  if (it == models_.end() || it->second.closed) return false;
  Model& model = it->second;
  if (model.request_limit > 0 && model.admitted >= model.request_limit) return false;
  ++model.admitted;
  return true;
}

void Router::leave(const std::string& uid, int64_t now_ms) {
  const auto it = models_.find(uid);
  if (it == models_.end()) return;
  if (it->second.admitted > 0) --it->second.admitted;
  it->second.last_used_ms = now_ms;
}

bool Router::is_usable(const Replica& replica, const RouteRequest& request, uint64_t tried_life, int64_t now_ms) const {
  if (!replica.ready || replica.on_trial || now_ms < replica.open_until_ms) return false;
  if (!request.adapter.empty() && find_call(replica.target, request.adapter) == nullptr) return false;
  return replica.life > tried_life || std::ranges::find(request.tried, replica.target.replica) == request.tried.end();
}

size_t Router::known_prefix(Replica& replica, const std::vector<uint64_t>& prefix) {
  // Hashes are chained: who knows one knows all before it, unless they have been forgotten.
  for (size_t i = prefix.size(); i > 0; --i) {
    if (replica.prefixes.contains(prefix[i - 1])) return i;
  }
  return 0;
}

Router::Replica* Router::choose(Model& model, const RouteRequest& request, uint64_t tried_life, int64_t now_ms) {
  std::vector<Replica*> usable;
  for (auto& [name, replica] : model.replicas) {
    if (is_usable(replica, request, tried_life, now_ms)) usable.push_back(&replica);
  }
  if (usable.empty()) return nullptr;
  if (const std::string* name = request.session == 0 ? nullptr : model.sessions.find(request.session)) {
    for (Replica* replica : usable) {
      if (replica->target.replica == *name) return replica;
    }
  }
  const auto by_load = [](const Replica* a, const Replica* b) {
    return std::pair(a->in_flight, a->picked) < std::pair(b->in_flight, b->picked);
  };
  Replica* least = *std::ranges::min_element(usable, by_load);
  Replica* best = least;
  size_t best_known = known_prefix(*least, request.prefix);
  for (Replica* replica : usable) {
    if (replica == least || is_overloaded(replica->in_flight, least->in_flight)) continue;
    const size_t known = known_prefix(*replica, request.prefix);
    if (known < best_known || (known == best_known && !by_load(replica, best))) continue;
    best = replica;
    best_known = known;
  }
  return best;
}

std::optional<Router::Pick> Router::pick(const RouteRequest& request, uint64_t tried_life, int64_t now_ms) {
  const auto it = models_.find(request.uid);
  if (it == models_.end() || it->second.closed) return std::nullopt;
  Model& model = it->second;
  Replica* replica = choose(model, request, tried_life, now_ms);
  if (replica == nullptr) return std::nullopt;
  if (replica->failures >= kFailuresMax) replica->on_trial = true;
  ++replica->in_flight;
  replica->picked = ++picks_;
  model.last_used_ms = now_ms;
  // Last to first, so that the beginning, which most prompts share, is forgotten last.
  for (size_t i = request.prefix.size(); i > 0; --i) replica->prefixes.put(request.prefix[i - 1], 0);
  if (request.session != 0) model.sessions.put(request.session, replica->target.replica);
  Pick pick{replica->target, replica->life};
  if (const AdapterCall* call = find_call(pick.target, request.adapter)) {
    pick.target.model = call->model;
    pick.target.fields = call->fields;
  }
  return pick;
}

void Router::finish(const std::string& uid, const std::string& name, uint64_t life, Lease::Outcome outcome,
                    int64_t now_ms) {
  const auto model = models_.find(uid);
  if (model == models_.end()) return;
  const auto it = model->second.replicas.find(name);
  if (it == model->second.replicas.end() || it->second.life != life) return;
  Replica& replica = it->second;
  if (replica.in_flight > 0) --replica.in_flight;
  const bool failed = outcome == Lease::Outcome::kRefused || outcome == Lease::Outcome::kBroken;
  if (failed) {
    ++replica.failures;
    const int32_t over = replica.failures - kFailuresMax;
    if (over >= 0) replica.open_until_ms = now_ms + std::min<int64_t>(30000, int64_t{1000} << std::min(over, 5));
  } else if (outcome != Lease::Outcome::kAbandoned) {
    replica.failures = 0;
    replica.open_until_ms = 0;
  }
  replica.on_trial = false;
  if (!replica.ready && replica.in_flight == 0) model->second.replicas.erase(it);
}

Router::ReplicaLoad Router::load(const std::string& uid, const std::string& name) const {
  const auto model = models_.find(uid);
  if (model == models_.end()) return {};
  const auto it = model->second.replicas.find(name);
  if (it == model->second.replicas.end()) return {};
  return {.in_flight = it->second.in_flight, .open = it->second.failures >= kFailuresMax};
}

int32_t Router::admitted(const std::string& uid) const {
  const auto it = models_.find(uid);
  return it == models_.end() ? 0 : it->second.admitted;
}

int64_t Router::last_used_ms(const std::string& uid) const {
  const auto it = models_.find(uid);
  return it == models_.end() ? 0 : it->second.last_used_ms;
}

std::optional<int64_t> Router::next_trial_ms(const std::string& uid) const {
  std::optional<int64_t> next;
  const auto it = models_.find(uid);
  if (it == models_.end()) return next;
  for (const auto& [name, replica] : it->second.replicas) {
    if (!replica.ready || replica.failures < kFailuresMax) continue;
    if (!next || replica.open_until_ms < *next) next = replica.open_until_ms;
  }
  return next;
}

}  // namespace quern
