#include "platform/fleet/fleet_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "platform/fleet/planner_devices.h"

namespace quern {
namespace {

using Kind = PlanAction::Kind;

bool is_pending(const PlanReplica& row) {
  return row.state == ReplicaState::kWaiting || row.state == ReplicaState::kPulling ||
         row.state == ReplicaState::kBackoff;
}

bool serves(const PlanReplica& row) {
  return row.state == ReplicaState::kReady && !row.killed;
}

bool has_ready(const PlanModel& model) {
  return std::ranges::any_of(model.rows, [](const PlanReplica& row) { return serves(row); });
}

// A replica that waits for its start.
struct Candidate {
  int32_t model_idx, row_idx;
  bool first;  // the model has none that serves
};

class Planner {
 public:
  explicit Planner(const PlanInput& input) : input_(input) {}

  std::vector<PlanAction> run() {
    for (size_t i = 0; i < input_.models.size(); ++i) {
      model_idx_ = static_cast<int32_t>(i);
      watch_processes();
      adjust_rows();
      unload_idle();
    }
    start_replicas();
    return std::move(actions_);
  }

 private:
  const PlanModel& model() const { return input_.models[model_idx_]; }
  size_t num_places() const { return input_.nodes.size() + 1; }
  const std::vector<PlanDevice>& devices(size_t place) const {
    return place == 0 ? input_.devices : input_.nodes[place - 1].devices;
  }
  bool knows_devices(size_t place) const {
    return place == 0 ? input_.knows_devices : input_.nodes[place - 1].knows_devices;
  }
  bool takes(const std::vector<bool>& by_place, const PlanModel& model, size_t place) const;
  bool counts(const PlanModel& model, const PlanReplica& row) const;
  bool counts(const PlanReplica& row) const { return counts(model(), row); }
  void act(Kind kind, int32_t row_idx, std::string reason = "") {
    act_on(model_idx_, kind, row_idx, std::move(reason));
    if (row_idx >= 0) taken_.insert({model_idx_, row_idx});
  }
  void act_on(int32_t model_idx, Kind kind, int32_t row_idx, std::string reason = "") {
    actions_.push_back({kind, model_idx, row_idx, std::move(reason), 0, {}});
  }

  void watch_processes();
  void watch_draining(const PlanReplica& row, int32_t row_idx);
  void adjust_rows();
  void retire_old(int32_t wanted);
  void drop_surplus(int32_t wanted);
  void unload_idle();
  void start_replicas();
  std::vector<Candidate> candidates();
  // Where a replica could be: pools of one machine, each of which would hold its share.
  struct Option {
    size_t place = 0;
    Pools pools;
  };
  const MemoryPool& pool(size_t place, const std::string& name) { return rooms_[place][name]; }
  bool pull_first(const Candidate& candidate);
  std::vector<size_t> places_for(const Candidate& candidate);
  std::vector<Pools> pools_at(const Candidate& candidate, size_t place) const;
  std::string why_nowhere(const Candidate& candidate, const std::vector<size_t>& places) const;
  std::vector<Option> options_for(const Candidate& candidate);
  void try_start(const Candidate& candidate);
  void start(const Candidate& candidate, const Option& option);
  std::string lack_of(const PlanModel& model, const std::vector<Option>& options, bool ever);
  bool is_loading(const Option& option);
  bool has_taker(const PlanModel& model, const Option& option);
  bool fits(const PlanModel& model, const Option& option, bool with_leaving);
  bool make_room(const Candidate& candidate, const Option& option);
  bool replace_own(const Candidate& candidate, const Option& option);
  std::vector<int32_t> victims(const Candidate& candidate) const;

  const PlanInput& input_;
  std::vector<PlanAction> actions_;
  int32_t model_idx_ = 0;
  std::set<std::pair<int32_t, int32_t>> taken_;  // rows that have an action
  // Of start_replicas().
  std::vector<MachineRoom> rooms_;                         // by place
  std::map<std::pair<int32_t, size_t>, int32_t> started_;  // by model and place
  std::set<int32_t> evicted_;                              // models
  int32_t pulls_ = 0;
  std::vector<bool> pull_asked_;
};

// May the place have a replica of the model? Memory is another question.
bool Planner::takes(const std::vector<bool>& by_place, const PlanModel& model, size_t place) const {
  const bool suits = by_place.empty() ? place == 0 : place < by_place.size() && by_place[place];
  if (place == 0) return suits && (!input_.drains || model.device.empty());
  return suits && !input_.nodes[place - 1].drains;
}

// Is one of those that are wished: not one that goes, or that nobody knows of.
bool Planner::counts(const PlanModel& model, const PlanReplica& row) const {
  if (!row.current || row.dismissed || row.state == ReplicaState::kLost) return false;
  const auto place = static_cast<size_t>(row.place);
  return !row.is_live() || takes(row.devices.empty() || model.keeps.empty() ? model.suits : model.keeps, model, place);
}

void Planner::watch_draining(const PlanReplica& row, int32_t row_idx) {
  if (row.terminated_ms == 0) {
    const bool out_of_time = input_.now_ms - row.since_ms >= input_.drain_timeout_ms;
    if (row.in_flight == 0 || out_of_time) act(Kind::kTerminate, row_idx);
    return;
  }
  const int64_t grace = std::min(kStopGraceMs, input_.drain_timeout_ms);
  if (input_.now_ms - row.terminated_ms >= grace) act(Kind::kKill, row_idx, "it did not stop in time");
}

void Planner::watch_processes() {
  for (size_t i = 0; i < model().rows.size(); ++i) {
    const PlanReplica& row = model().rows[i];
    const auto row_idx = static_cast<int32_t>(i);
    if (row.killed) continue;
    if (row.state == ReplicaState::kDraining) watch_draining(row, row_idx);
    if (row.state == ReplicaState::kLoading && input_.now_ms - row.since_ms >= input_.start_timeout_ms) {
      act(Kind::kKill, row_idx, fmt::format("it did not load within {} s", input_.start_timeout_ms / 1000));
    }
    if (row.state != ReplicaState::kReady) continue;
    const int64_t silent_ms = input_.now_ms - row.answered_ms;
    // Of other machines their agents see to it.
    if (silent_ms >= input_.health_timeout_ms && row.place == 0) {
      act(Kind::kKill, row_idx, fmt::format("stuck: no answer for {:.1f} s", static_cast<double>(silent_ms) / 1000));
    } else if (row.failures > 0 && input_.now_ms - row.since_ms >= kForgiveMs) {
      act(Kind::kForgive, row_idx);
    }
  }
}

// Rows of other options, and rows that were asked to go.
void Planner::retire_old(int32_t wanted) {
  int32_t serving = 0;
  for (const PlanReplica& row : model().rows) serving += serves(row) && counts(row) ? 1 : 0;
  int32_t old_serving = 0;
  for (const PlanReplica& row : model().rows) old_serving += serves(row) && !counts(row) && !row.dismissed ? 1 : 0;
  for (size_t i = 0; i < model().rows.size(); ++i) {
    const PlanReplica& row = model().rows[i];
    const auto row_idx = static_cast<int32_t>(i);
    if (counts(row) || row.state == ReplicaState::kDraining || row.killed) continue;
    const bool may_return = row.state == ReplicaState::kLost && row.current && !row.dismissed && wanted > 0;
    if (may_return) continue;
    if (!row.is_live()) {
      act(Kind::kRemove, row_idx);
    } else if (row.dismissed || !serves(row) || wanted == 0) {
      act(Kind::kDrain, row_idx);
    } else if (serving + old_serving > wanted) {
      act(Kind::kDrain, row_idx, "a new one serves in its place");
      --old_serving;
    }
  }
}

// More rows than are wished: those that do not run go first, then those with the least to do.
void Planner::drop_surplus(int32_t wanted) {
  std::vector<int32_t> rows;
  for (size_t i = 0; i < model().rows.size(); ++i) {
    const PlanReplica& row = model().rows[i];
    if (counts(row) && row.state != ReplicaState::kDraining && !row.killed) rows.push_back(static_cast<int32_t>(i));
  }
  const auto rank = [&](int32_t i) {
    const PlanReplica& row = model().rows[i];
    return std::pair(row.state == ReplicaState::kReady     ? 3
                     : row.state == ReplicaState::kLoading ? 2
                     : is_pending(row)                     ? 1
                                                           : 0,
                     row.state == ReplicaState::kReady ? row.in_flight : 0);
  };
  std::ranges::stable_sort(rows, [&](int32_t a, int32_t b) { return std::pair(rank(a), b) < std::pair(rank(b), a); });
  // An idle model keeps a stopped row for each replica, for those who look.
  const int32_t kept = wanted == 0 ? (model().leaving ? 0 : std::max(1, model().replicas)) : wanted;
  int32_t surplus = static_cast<int32_t>(rows.size()) - kept;
  for (const int32_t i : rows) {
    const PlanReplica& row = model().rows[i];
    if (row.is_live() && (surplus > 0 || wanted == 0)) {
      act(Kind::kDrain, i);
    } else if (surplus > 0) {
      act(Kind::kRemove, i);
    } else if (wanted == 0 && is_pending(row)) {
      act(Kind::kRest, i);
    }
    --surplus;
  }
}

void Planner::adjust_rows() {
  const int32_t wanted = wanted_replicas(model());
  retire_old(wanted);
  drop_surplus(wanted);
  if (model().leaving && model().rows.empty()) act(Kind::kForget, -1);
  if (model().leaving) return;
  int32_t rows = 0, running = 0;
  for (const PlanReplica& row : model().rows) {
    if (!counts(row)) continue;
    ++rows;
    if (row.state != ReplicaState::kDraining && row.state != ReplicaState::kStopped) ++running;
  }
  for (size_t i = 0; i < model().rows.size() && running < wanted; ++i) {
    const PlanReplica& row = model().rows[i];
    if (!counts(row) || row.state != ReplicaState::kStopped) continue;
    act(Kind::kWake, static_cast<int32_t>(i));
    ++running;
  }
  for (const int32_t kept = std::max({wanted, 1, model().replicas}); rows < kept; ++rows) act(Kind::kAdd, -1);
}

void Planner::unload_idle() {
  const PlanModel& one = model();
  if (!one.awake || one.leaving || one.pinned || one.keep_alive_ms < 0 || one.waiting > 0) return;
  if (input_.now_ms - one.last_used_ms < one.keep_alive_ms) return;
  const bool quiet = std::ranges::all_of(one.rows, [&](const PlanReplica& row) {
    return row.in_flight == 0 &&
           (serves(row) ? input_.now_ms - row.since_ms >= one.keep_alive_ms : row.state == ReplicaState::kStopped);
  });
  if (quiet && has_ready(one)) act(Kind::kUnload, -1);
}

std::vector<Candidate> Planner::candidates() {
  std::vector<Candidate> found;
  for (size_t m = 0; m < input_.models.size(); ++m) {
    const PlanModel& one = input_.models[m];
    const int32_t wanted = wanted_replicas(one);
    int32_t live = 0, live_current = 0;
    for (const PlanReplica& row : one.rows) {
      const bool up = row.state == ReplicaState::kLoading || row.state == ReplicaState::kReady;
      live += up && !row.dismissed ? 1 : 0;
      live_current += up && counts(one, row) ? 1 : 0;
    }
    for (size_t i = 0; i < one.rows.size(); ++i) {
      const PlanReplica& row = one.rows[i];
      const bool due = row.state == ReplicaState::kWaiting || row.state == ReplicaState::kPulling ||
                       (row.state == ReplicaState::kBackoff && input_.now_ms >= row.retry_ms);
      // While old ones serve, one more than is wished may run.
      if (taken_.contains({static_cast<int32_t>(m), static_cast<int32_t>(i)})) continue;
      if (!counts(one, row) || !due || live_current >= wanted || live > wanted) continue;
      found.push_back({static_cast<int32_t>(m), static_cast<int32_t>(i), !has_ready(one)});
      ++live;
      ++live_current;
    }
  }
  std::ranges::stable_sort(found, [&](const Candidate& a, const Candidate& b) {
    const PlanModel &one = input_.models[a.model_idx], &other = input_.models[b.model_idx];
    if (a.first != b.first) return a.first;
    if ((one.waiting > 0) != (other.waiting > 0)) return one.waiting > 0;
    if (one.priority != other.priority) return one.priority > other.priority;
    return one.demand_ms < other.demand_ms;
  });
  return found;
}

void Planner::start_replicas() {
  for (size_t place = 0; place < num_places(); ++place) {
    const int64_t budget = place == 0 ? input_.budget_bytes : input_.nodes[place - 1].budget_bytes;
    rooms_.push_back(room_of_machine(budget, devices(place)));
  }
  for (const PlanModel& one : input_.models) {
    pulls_ += one.files == FilesState::kPulling ? 1 : 0;
    for (const PlanReplica& row : one.rows) {
      for (const std::string& name : pools_of(one, row)) {
        MemoryPool& pool = rooms_[static_cast<size_t>(row.place)][name];
        const int64_t bytes = bytes_of(one, row, name, pool);
        pool.free_bytes -= bytes;
        if (row.state == ReplicaState::kDraining || (row.is_live() && row.killed)) pool.leaving_bytes += bytes;
        if (row.state == ReplicaState::kLoading) ++pool.loads;
      }
    }
  }
  pull_asked_.resize(input_.models.size());
  for (const Candidate& candidate : candidates()) {
    // Its room on one machine was given away a moment ago: it is not for the others.
    if (!evicted_.contains(candidate.model_idx)) try_start(candidate);
  }
}

// The files first: true when they are not here yet.
bool Planner::pull_first(const Candidate& candidate) {
  const PlanModel& one = input_.models[candidate.model_idx];
  if (one.files == FilesState::kHere) return false;
  const bool due =
      one.files == FilesState::kMissing || (one.files == FilesState::kBackoff && input_.now_ms >= one.files_retry_ms);
  if (due && !pull_asked_[candidate.model_idx] && pulls_ < input_.pulls_max) {
    act_on(candidate.model_idx, Kind::kPull, -1);
    pull_asked_[candidate.model_idx] = true;
    ++pulls_;
  } else if (due && !pull_asked_[candidate.model_idx]) {
    act_on(candidate.model_idx, Kind::kWaits, candidate.row_idx, "waits for another download");
  }
  return true;
}

// Where it may go, the best first.
std::vector<size_t> Planner::places_for(const Candidate& candidate) {
  const PlanModel& one = input_.models[candidate.model_idx];
  const PlanReplica& row = one.rows[candidate.row_idx];
  std::vector<size_t> places;
  for (size_t place = 0; place < num_places(); ++place) {
    if (takes(one.suits, one, place) && (place == 0 || input_.nodes[place - 1].is_ready)) places.push_back(place);
  }
  const auto rank = [&](size_t place) {
    const auto same = [&](const PlanReplica& other) {
      return other.is_live() && other.state != ReplicaState::kDraining && static_cast<size_t>(other.place) == place;
    };
    const auto started = started_.find({candidate.model_idx, place});
    const int64_t copies = std::ranges::count_if(one.rows, same) + (started == started_.end() ? 0 : started->second);
    const std::vector<Pools> pools = pools_at(candidate, place);
    const bool any = !pools.empty() && !pools.front().empty();
    const int64_t free = any ? pool(place, pools.front().front()).free_bytes : 0;
    return std::tuple(static_cast<int64_t>(place) == row.failed_place, copies, -free);
  };
  std::ranges::stable_sort(places, [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return places;
}

// None: its devices are not known yet, or too few.
std::vector<Pools> Planner::pools_at(const Candidate& candidate, size_t place) const {
  const PlanModel& one = input_.models[candidate.model_idx];
  const PlanReplica& row = one.rows[candidate.row_idx];
  if (wants_device(one, row) && !knows_devices(place)) return {};
  return pools_for(one, row, devices(place), rooms_[place]);
}

std::string Planner::why_nowhere(const Candidate& candidate, const std::vector<size_t>& places) const {
  const PlanModel& one = input_.models[candidate.model_idx];
  int32_t most = 0;
  for (const size_t place : places) {
    if (!knows_devices(place)) return "waits until the devices of its machine are known";
    most = std::max(most, num_devices_of_a_kind(one, devices(place)));
  }
  return fmt::format("needs {} devices of one kind, {} are there", one.num_devices, most);
}

std::vector<Planner::Option> Planner::options_for(const Candidate& candidate) {
  std::vector<Option> options;
  for (const size_t place : places_for(candidate)) {
    for (Pools& pools : pools_at(candidate, place)) options.push_back({place, std::move(pools)});
  }
  return options;
}

bool Planner::is_loading(const Option& option) {
  return std::ranges::any_of(
      option.pools, [&](const std::string& name) { return pool(option.place, name).loads >= input_.loads_max; });
}

// What is being freed is for the first who asked.
bool Planner::has_taker(const PlanModel& model, const Option& option) {
  return std::ranges::any_of(option.pools, [&](const std::string& name) {
    const MemoryPool& one = pool(option.place, name);
    return one.is_made && share_of(model, one, option.pools.size()) > 0;
  });
}

bool Planner::fits(const PlanModel& model, const Option& option, bool with_leaving) {
  return std::ranges::all_of(option.pools, [&](const std::string& name) {
    const MemoryPool& one = pool(option.place, name);
    const int64_t share = share_of(model, one, option.pools.size());
    return share == 0 || !one.budget_bytes || share <= free_for(model, one) + (with_leaving ? one.leaving_bytes : 0);
  });
}

// In numbers: of the pool with the most room, for all models or now.
std::string Planner::lack_of(const PlanModel& model, const std::vector<Option>& options, bool ever) {
  int64_t most = -1, share = model.needs_bytes;
  std::string where;
  for (const Option& option : options) {
    for (const std::string& name : option.pools) {
      const MemoryPool& one = pool(option.place, name);
      const int64_t bytes = std::max<int64_t>(0, ever ? capacity_of(one, 0) : free_for(model, one));
      if (bytes <= most) continue;
      most = bytes;
      share = ever ? need_of(model, option.pools.size()) : share_of(model, one, option.pools.size());
      where = name == kMainMemory ? "" : " on " + name;
    }
  }
  if (ever) return fmt::format("needs {} of memory{}, {} are there for models", mib_text(share), where, mib_text(most));
  return fmt::format("waits for memory{}: needs {}, {} are free", where, mib_text(share), mib_text(most));
}

void Planner::start(const Candidate& candidate, const Option& option) {
  const PlanModel& one = input_.models[candidate.model_idx];
  for (const std::string& name : option.pools) {
    MemoryPool& pool = rooms_[option.place][name];
    pool.free_bytes -= share_of(one, pool, option.pools.size());
    ++pool.loads;
  }
  ++started_[{candidate.model_idx, option.place}];
  const bool is_main = option.pools.empty() || option.pools.front() == kMainMemory;
  actions_.push_back({Kind::kStart, candidate.model_idx, candidate.row_idx, "", static_cast<int32_t>(option.place),
                      is_main ? Pools() : option.pools});
}

void Planner::try_start(const Candidate& candidate) {
  const PlanModel& one = input_.models[candidate.model_idx];
  const auto waits = [&](std::string why) {
    act_on(candidate.model_idx, Kind::kWaits, candidate.row_idx, std::move(why));
  };
  const std::vector<size_t> places = places_for(candidate);
  if (places.empty()) return waits("waits for a machine that it suits");
  const bool here_alone = places.size() == 1 && places[0] == 0;
  if (here_alone && pull_first(candidate)) return;
  std::vector<Option> options = options_for(candidate);
  if (options.empty()) return waits(why_nowhere(candidate, places));
  const std::string never = lack_of(one, options, /*ever=*/true);
  std::erase_if(options, [&](const Option& option) { return !can_ever_fit(one, option.pools, rooms_[option.place]); });
  if (options.empty()) return waits(never);
  const std::string now = lack_of(one, options, /*ever=*/false);
  bool all_load = true, all_made = true;
  for (const Option& option : options) {
    if (is_loading(option)) continue;
    all_load = false;
    if (has_taker(one, option)) continue;
    all_made = false;
    if (!fits(one, option, /*with_leaving=*/false)) continue;
    if (option.place == 0 && pull_first(candidate)) return;
    return start(candidate, option);
  }
  if (all_load) return waits("waits for another model to load");
  if (all_made) return waits("waits for memory");
  for (const Option& option : options) {
    if (is_loading(option) || has_taker(one, option)) continue;
    if (!fits(one, option, /*with_leaving=*/true) && !make_room(candidate, option)) continue;
    for (const std::string& name : option.pools) rooms_[option.place][name].is_made = true;
    break;
  }
  waits(now);
}

// Models that may go for the candidate's sake, the least needed first.
std::vector<int32_t> Planner::victims(const Candidate& candidate) const {
  const PlanModel& wanted = input_.models[candidate.model_idx];
  std::vector<int32_t> found;
  for (size_t i = 0; i < input_.models.size(); ++i) {
    const PlanModel& one = input_.models[i];
    const auto index = static_cast<int32_t>(i);
    if (index == candidate.model_idx || one.pinned || one.leaving || !one.awake || evicted_.contains(index)) continue;
    const auto started = started_.lower_bound({index, 0});
    if (started != started_.end() && started->first.first == index) continue;
    if (one.waiting > 0 || one.priority > wanted.priority || !has_ready(one)) continue;
    // A further replica is no reason to send away another's only one.
    if (!candidate.first && one.priority == wanted.priority) continue;
    const bool idle = std::ranges::all_of(one.rows, [&](const PlanReplica& row) {
      return row.in_flight == 0 && row.state != ReplicaState::kLoading &&
             (!serves(row) || input_.now_ms - row.since_ms >= kResidencyMs);
    });
    if (idle) found.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(found, [&](int32_t a, int32_t b) {
    const PlanModel &one = input_.models[a], &other = input_.models[b];
    return std::pair(one.priority, one.last_used_ms) < std::pair(other.priority, other.last_used_ms);
  });
  return found;
}

// Sends models away until the option has room for the candidate, or none: false.
bool Planner::make_room(const Candidate& candidate, const Option& option) {
  const PlanModel& one = input_.models[candidate.model_idx];
  const auto gain = [&](int32_t model_idx, const std::string& name) {
    const PlanModel& other = input_.models[model_idx];
    return std::accumulate(other.rows.begin(), other.rows.end(), int64_t{0}, [&](int64_t sum, const PlanReplica& row) {
      return sum + (static_cast<size_t>(row.place) == option.place
                        ? bytes_of(other, row, name, pool(option.place, name))
                        : 0);
    });
  };
  std::map<std::string, int64_t> lacking;
  for (const std::string& name : option.pools) {
    const MemoryPool& own = pool(option.place, name);
    if (!own.budget_bytes) continue;
    lacking[name] = share_of(one, own, option.pools.size()) - free_for(one, own) - own.leaving_bytes;
  }
  const auto lacks = [&] { return std::ranges::any_of(lacking, [](const auto& each) { return each.second > 0; }); };
  std::vector<int32_t> chosen;
  for (const int32_t victim : victims(candidate)) {
    if (!lacks()) break;
    const bool helps =
        std::ranges::any_of(lacking, [&](const auto& each) { return each.second > 0 && gain(victim, each.first) > 0; });
    if (!helps) continue;
    chosen.push_back(victim);
    for (auto& [name, bytes] : lacking) bytes -= gain(victim, name);
  }
  if (lacks()) return replace_own(candidate, option);
  // Taken in the order of least need; one that was taken in vain stays.
  std::erase_if(chosen, [&](int32_t victim) {
    const bool vain =
        std::ranges::all_of(lacking, [&](const auto& each) { return gain(victim, each.first) <= -each.second; });
    if (!vain) return false;
    for (auto& [name, bytes] : lacking) bytes += gain(victim, name);
    return true;
  });
  for (const int32_t victim : chosen) {
    act_on(victim, Kind::kEvict, -1, "another model needs the memory");
    evicted_.insert(victim);
  }
  return true;
}

// No room beside the replica that it shall replace: that one goes first.
bool Planner::replace_own(const Candidate& candidate, const Option& option) {
  const PlanModel& one = input_.models[candidate.model_idx];
  for (size_t i = 0; i < one.rows.size(); ++i) {
    const PlanReplica& row = one.rows[i];
    if (!serves(row) || counts(one, row) || row.dismissed || static_cast<size_t>(row.place) != option.place) continue;
    const bool enough = std::ranges::all_of(option.pools, [&](const std::string& name) {
      const MemoryPool& own = pool(option.place, name);
      const int64_t room = free_for(one, own) + own.leaving_bytes + bytes_of(one, row, name, own);
      return !own.budget_bytes || share_of(one, own, option.pools.size()) <= room;
    });
    if (!enough) continue;
    act_on(candidate.model_idx, Kind::kDrain, static_cast<int32_t>(i), "there is no memory for both");
    return true;
  }
  return false;
}

}  // namespace

std::vector<PlanAction> plan_fleet(const PlanInput& input) {
  return Planner(input).run();
}

int64_t backoff_ms(int32_t failures) {
  if (failures <= 0) return 0;
  return std::min<int64_t>(30000, int64_t{500} << std::min(failures - 1, 6));
}

int32_t wanted_replicas(const PlanModel& model) {
  if (model.leaving || !model.awake) return 0;
  return std::max(1, model.replicas);
}

}  // namespace quern
