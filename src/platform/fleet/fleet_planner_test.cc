// The planner in a world that the test makes up: loads take their time, workers die and hang, requests come, wishes
// change. After every step the invariants are looked at; histories that go wrong print their seed.
#include "platform/fleet/fleet_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace quern {
namespace {

using Kind = PlanAction::Kind;

PlanModel model(int64_t needs, int32_t replicas = 1) {
  return {.replicas = replicas, .needs_bytes = needs, .device = "cpu", .rows = {}};
}

PlanReplica row(ReplicaState state, int64_t since_ms = 0) {
  return {.state = state, .since_ms = since_ms, .answered_ms = since_ms};
}

std::vector<Kind> kinds(const std::vector<PlanAction>& actions) {
  std::vector<Kind> found;
  for (const PlanAction& action : actions) found.push_back(action.kind);
  return found;
}

TEST(FleetPlanner, BackOffDoublesToHalfAMinute) {
  EXPECT_EQ(backoff_ms(0), 0);
  EXPECT_EQ(backoff_ms(1), 500);
  EXPECT_EQ(backoff_ms(2), 1000);
  EXPECT_EQ(backoff_ms(6), 16000);
  EXPECT_EQ(backoff_ms(7), 30000);
  EXPECT_EQ(backoff_ms(1000), 30000);
}

TEST(FleetPlanner, OneLoadAtATimeOnADevice) {
  PlanInput input{.budget_bytes = 100, .models = {model(10), model(10)}};
  for (PlanModel& one : input.models) one.rows = {row(ReplicaState::kWaiting)};
  EXPECT_EQ(kinds(plan_fleet(input)), (std::vector{Kind::kStart, Kind::kWaits}));
  input.loads_max = 2;
  EXPECT_EQ(kinds(plan_fleet(input)), (std::vector{Kind::kStart, Kind::kStart}));
}

TEST(FleetPlanner, TheLeastNeededGoes) {
  PlanInput input{.now_ms = 100000, .budget_bytes = 30, .models = {model(10), model(10), model(10), model(10)}};
  for (size_t i = 0; i < 3; ++i) input.models[i].rows = {row(ReplicaState::kReady)};
  for (PlanModel& one : input.models) {
    for (PlanReplica& each : one.rows) each.answered_ms = input.now_ms;
  }
  input.models[0].last_used_ms = 50;
  input.models[1].last_used_ms = 20;
  input.models[2].last_used_ms = 10;
  input.models[2].pinned = true;
  input.models[3].rows = {row(ReplicaState::kWaiting)};
  auto actions = plan_fleet(input);
  ASSERT_EQ(kinds(actions), (std::vector{Kind::kEvict, Kind::kWaits}));
  EXPECT_EQ(actions[0].model_idx, 1);
  input.models[1].rows[0].in_flight = 1;
  EXPECT_EQ(plan_fleet(input)[0].model_idx, 0);
  input.models[0].priority = 1;
  actions = plan_fleet(input);
  ASSERT_EQ(kinds(actions), std::vector{Kind::kWaits});
  EXPECT_NE(actions[0].reason.find("memory"), std::string::npos);
}

TEST(FleetPlanner, ANewOneServesBeforeTheOldOneGoes) {
  PlanInput input{.budget_bytes = 100, .models = {model(10)}};
  PlanModel& one = input.models[0];
  one.rows = {row(ReplicaState::kReady)};
  one.rows[0].current = false;
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kAdd});
  one.rows.push_back(row(ReplicaState::kWaiting));
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kStart});
  one.rows[1].state = ReplicaState::kLoading;
  EXPECT_TRUE(plan_fleet(input).empty());
  one.rows[1].state = ReplicaState::kReady;
  const auto actions = plan_fleet(input);
  ASSERT_EQ(kinds(actions), std::vector{Kind::kDrain});
  EXPECT_EQ(actions[0].row_idx, 0);
  // There is no room for both: the old one goes first.
  one.rows[1].state = ReplicaState::kWaiting;
  input.budget_bytes = 15;
  EXPECT_EQ(kinds(plan_fleet(input)), (std::vector{Kind::kDrain, Kind::kWaits}));
}

TEST(FleetPlanner, StuckAndSlowOnesAreKilled) {
  PlanInput input{.now_ms = 5000, .budget_bytes = 100, .models = {model(10)}};
  input.models[0].rows = {row(ReplicaState::kReady)};
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kKill});
  input.models[0].rows[0].killed = true;
  EXPECT_TRUE(plan_fleet(input).empty());
  input.models[0].rows = {row(ReplicaState::kLoading)};
  EXPECT_TRUE(plan_fleet(input).empty());
  input.now_ms = input.start_timeout_ms;
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kKill});
}

// Two machines beside this one, all with room for ten.
PlanInput three_machines(int32_t replicas) {
  PlanInput input{.budget_bytes = 100,
                  .nodes = {{.budget_bytes = 100, .is_ready = true}, {.budget_bytes = 100, .is_ready = true}},
                  .models = {model(10, replicas)}};
  input.models[0].suits = {true, true, true};
  for (int32_t i = 0; i < replicas; ++i) input.models[0].rows.push_back(row(ReplicaState::kWaiting));
  return input;
}

std::vector<int32_t> start_places(const PlanInput& input) {
  std::vector<int32_t> places;
  for (const PlanAction& action : plan_fleet(input)) {
    if (action.kind == Kind::kStart) places.push_back(action.place);
  }
  std::ranges::sort(places);
  return places;
}

TEST(FleetPlanner, ReplicasSpreadOverMachines) {
  EXPECT_EQ(start_places(three_machines(3)), (std::vector{0, 1, 2}));
  PlanInput input = three_machines(1);
  input.nodes[1].budget_bytes = 200;
  EXPECT_EQ(start_places(input), std::vector{2}) << "most room";
  input.nodes[1].is_ready = false;
  EXPECT_EQ(start_places(input), std::vector{0});
  input.models[0].suits = {false, true, true};
  EXPECT_EQ(start_places(input), std::vector{1});
  input.models[0].rows[0].failed_place = 1;
  EXPECT_EQ(start_places(input), std::vector{1}) << "there is no other";
  input.nodes[1].is_ready = true;
  EXPECT_EQ(start_places(input), std::vector{2});
  input.nodes[0].drains = input.nodes[1].drains = true;
  const auto actions = plan_fleet(input);
  ASSERT_EQ(kinds(actions), std::vector{Kind::kWaits});
  EXPECT_NE(actions[0].reason.find("machine"), std::string::npos);
}

// A model whose files are not here needs no download of this machine's when another one runs it.
TEST(FleetPlanner, FilesArePulledWhereTheyAreNeeded) {
  PlanInput input = three_machines(1);
  input.models[0].files = FilesState::kMissing;
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kPull});
  input.nodes[0].budget_bytes = 200;
  EXPECT_EQ(start_places(input), std::vector{1});
}

TEST(FleetPlanner, AMachineThatDrainsIsLeftOneByOne) {
  PlanInput input = three_machines(2);
  auto& rows = input.models[0].rows;
  for (PlanReplica& each : rows) each = row(ReplicaState::kReady);
  rows[0].place = 1;
  rows[1].place = 2;
  EXPECT_TRUE(plan_fleet(input).empty());
  input.nodes[0].drains = true;
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kAdd});
  rows.push_back(row(ReplicaState::kWaiting));
  EXPECT_EQ(start_places(input), std::vector{0});
  rows[2].state = ReplicaState::kLoading;
  EXPECT_TRUE(plan_fleet(input).empty()) << "the old one serves until the new one does";
  rows[2].state = ReplicaState::kReady;
  const auto actions = plan_fleet(input);
  ASSERT_EQ(kinds(actions), std::vector{Kind::kDrain});
  EXPECT_EQ(actions[0].row_idx, 0);
}

TEST(FleetPlanner, WhatIsLostIsReplacedAndMayComeBack) {
  PlanInput input = three_machines(1);
  auto& rows = input.models[0].rows;
  rows[0] = row(ReplicaState::kLost);
  rows[0].place = 1;
  input.nodes[0].is_ready = false;
  EXPECT_EQ(kinds(plan_fleet(input)), std::vector{Kind::kAdd});
  rows.push_back(row(ReplicaState::kReady));
  EXPECT_TRUE(plan_fleet(input).empty());
  // Back while the other serves: the one with less to do goes.
  input.nodes[0].is_ready = true;
  rows[0].state = ReplicaState::kReady;
  rows[1].in_flight = 3;
  const auto actions = plan_fleet(input);
  ASSERT_EQ(kinds(actions), std::vector{Kind::kDrain});
  EXPECT_EQ(actions[0].row_idx, 0);
  // Nobody wishes it any more.
  rows[0].state = ReplicaState::kLost;
  input.models[0].awake = false;
  EXPECT_EQ(plan_fleet(input)[0].kind, Kind::kRemove);
}

// A worker of the world: what the planner cannot know in advance.
struct Fate {
  int64_t ready_ms = -1, dies_ms = -1, hangs_ms = -1;
};

class World {
 public:
  explicit World(uint64_t seed, bool kind, int64_t nodes_max = 0) : random_(seed), kind_(kind) {
    const int64_t num_nodes = nodes_max == 0 ? 0 : number(1, nodes_max);
    for (int64_t i = 0; i < num_nodes; ++i) {
      input_.nodes.push_back({.budget_bytes = number(20, 100), .is_ready = true, .drains = false});
    }
    input_.budget_bytes = number(20, 100);
    input_.loads_max = static_cast<int32_t>(number(1, 2));
    const int64_t count = number(1, 6);
    for (int64_t i = 0; i < count; ++i) {
      PlanModel one = model(number(1, 40), static_cast<int32_t>(number(0, 3)));
      one.pinned = chance(0.2);
      one.priority = static_cast<int32_t>(number(0, 2));
      one.keep_alive_ms = chance(0.4) ? number(500, 20000) : -1;
      one.awake = one.replicas > 0;
      one.files = chance(0.3) ? FilesState::kMissing : FilesState::kHere;
      give_places(one);
      input_.models.push_back(one);
      fates_.emplace_back();
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      input_.now_ms += number(1, 400);
      if (!quiet_) disturb();
      happen();
      for (int turn = 0;; ++turn) {
        ASSERT_LT(turn, 50) << "the planner never rests";
        if (!decide()) break;
      }
      check();
    }
  }
  void settle() {
    quiet_ = true;
    input_.drains = false;
    for (size_t i = 0; i < input_.nodes.size(); ++i) {
      heal(i);
      input_.nodes[i].drains = false;
    }
    for (PlanModel& one : input_.models) {
      one.waiting = 0;
      for (PlanReplica& each : one.rows) each.in_flight = 0;
    }
    for (auto& rows : fates_) {
      for (Fate& fate : rows) fate.dies_ms = fate.hangs_ms = -1;
    }
    run(3000);
  }

  PlanInput input_;

 private:
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  void give_places(PlanModel& one) {
    if (input_.nodes.empty()) return;
    one.suits.push_back(chance(0.8));
    for (size_t i = 0; i < input_.nodes.size(); ++i) one.suits.push_back(chance(0.7));
  }

  void cut(size_t node) {
    input_.nodes[node].is_ready = false;
    for (PlanModel& one : input_.models) {
      for (PlanReplica& each : one.rows) {
        const bool up = each.state == ReplicaState::kLoading || each.state == ReplicaState::kReady;
        if (!up || each.place != static_cast<int32_t>(node) + 1) continue;
        each.state = ReplicaState::kLost;
        each.in_flight = 0;
        each.killed = false;
      }
    }
  }

  // What was lost comes back, or has died meanwhile.
  void heal(size_t node) {
    input_.nodes[node].is_ready = true;
    for (size_t m = 0; m < input_.models.size(); ++m) {
      for (size_t i = 0; i < input_.models[m].rows.size(); ++i) {
        PlanReplica& each = input_.models[m].rows[i];
        if (each.state != ReplicaState::kLost || each.place != static_cast<int32_t>(node) + 1) continue;
        each.state = ReplicaState::kReady;
        each.since_ms = each.answered_ms = input_.now_ms;
        if (chance(0.2)) end(m, i);
      }
    }
  }

  void disturb_nodes() {
    if (chance(0.01)) input_.drains = !input_.drains;
    if (input_.nodes.empty() || !chance(0.1)) return;
    const auto node = static_cast<size_t>(number(0, static_cast<int64_t>(input_.nodes.size()) - 1));
    if (chance(0.3)) {
      input_.nodes[node].drains = !input_.nodes[node].drains;
    } else if (input_.nodes[node].is_ready) {
      cut(node);
    } else {
      heal(node);
    }
  }

  void disturb() {
    if (!input_.nodes.empty()) disturb_nodes();
    PlanModel& one = input_.models[static_cast<size_t>(number(0, static_cast<int64_t>(input_.models.size()) - 1))];
    if (one.leaving) return;
    if (chance(0.3)) {
      // A request: held until a replica is ready.
      one.last_used_ms = input_.now_ms;
      if (!one.awake) {
        one.awake = true;
        one.demand_ms = input_.now_ms;
      }
      ++one.waiting;
    }
    if (chance(0.02)) one.replicas = static_cast<int32_t>(number(0, 3));
    if (chance(0.02)) {
      for (PlanReplica& each : one.rows) each.current = each.current && !each.is_live();
    }
    if (chance(0.02) && !one.rows.empty()) {
      one.rows[static_cast<size_t>(number(0, static_cast<int64_t>(one.rows.size()) - 1))].dismissed = true;
    }
    if (chance(0.01)) one.leaving = true;
  }

  void end(size_t m, size_t i) {
    PlanReplica& each = input_.models[m].rows[i];
    const bool asked = each.state == ReplicaState::kDraining;
    each.state = asked ? ReplicaState::kStopped : ReplicaState::kBackoff;
    if (!asked) each.retry_ms = input_.now_ms + backoff_ms(++each.failures);
    each.since_ms = input_.now_ms;
    each.terminated_ms = 0;
    each.killed = false;
    each.in_flight = 0;
    each.bytes = 0;
    each.failed_place = asked ? each.failed_place : each.place;
    each.place = 0;
    fates_[m][i] = {};
  }

  void happen() {
    for (size_t m = 0; m < input_.models.size(); ++m) {
      PlanModel& one = input_.models[m];
      if (one.files == FilesState::kPulling && chance(0.3)) {
        one.files = quiet_ || chance(0.8) ? FilesState::kHere : FilesState::kBackoff;
        one.files_retry_ms = input_.now_ms + 500;
      }
      for (size_t i = 0; i < one.rows.size(); ++i) {
        PlanReplica& each = one.rows[i];
        Fate& fate = fates_[m][i];
        if (!each.is_live()) continue;
        if (each.killed || (each.terminated_ms > 0 && fate.hangs_ms < 0) ||
            (fate.dies_ms >= 0 && input_.now_ms >= fate.dies_ms)) {
          end(m, i);
          continue;
        }
        if (each.state == ReplicaState::kLoading && input_.now_ms >= fate.ready_ms) {
          each.state = ReplicaState::kReady;
          each.since_ms = input_.now_ms;
        }
        const bool hangs = fate.hangs_ms >= 0 && input_.now_ms >= fate.hangs_ms;
        if (each.state == ReplicaState::kReady && !hangs) {
          each.answered_ms = input_.now_ms;
          each.in_flight = static_cast<int32_t>(std::max<int64_t>(0, each.in_flight - number(0, 2))) + one.waiting;
          if (one.waiting > 0) one.last_used_ms = input_.now_ms;
          one.waiting = 0;
        }
        if (each.state == ReplicaState::kDraining && chance(0.5)) each.in_flight = 0;
      }
    }
  }

  bool decide() {
    const auto actions = plan_fleet(input_);
    bool again = false;
    std::vector<PlanAction> removals;
    for (const PlanAction& action : actions) {
      if (action.kind == Kind::kRemove || action.kind == Kind::kForget) {
        removals.push_back(action);
      } else {
        apply(action);
      }
      again |= action.kind != Kind::kWaits;
    }
    std::ranges::sort(removals, [](const PlanAction& a, const PlanAction& b) {
      return std::pair(a.model_idx, a.row_idx) > std::pair(b.model_idx, b.row_idx);
    });
    for (const PlanAction& action : removals) {
      PlanModel& one = input_.models[static_cast<size_t>(action.model_idx)];
      auto& rows = fates_[static_cast<size_t>(action.model_idx)];
      if (action.kind == Kind::kForget) {
        EXPECT_TRUE(one.leaving && one.rows.empty());
        input_.models.erase(input_.models.begin() + action.model_idx);
        fates_.erase(fates_.begin() + action.model_idx);
        PlanModel fresh = model(number(1, 40), static_cast<int32_t>(number(1, 3)));
        fresh.demand_ms = fresh.last_used_ms = input_.now_ms;
        give_places(fresh);
        input_.models.push_back(fresh);
        fates_.emplace_back();
      } else {
        EXPECT_FALSE(one.rows[static_cast<size_t>(action.row_idx)].is_live()) << "a process was forgotten";
        one.rows.erase(one.rows.begin() + action.row_idx);
        rows.erase(rows.begin() + action.row_idx);
      }
    }
    return again;
  }

  void apply(const PlanAction& action) {
    PlanModel& one = input_.models[static_cast<size_t>(action.model_idx)];
    auto& rows = fates_[static_cast<size_t>(action.model_idx)];
    PlanReplica* each = action.row_idx < 0 ? nullptr : &one.rows[static_cast<size_t>(action.row_idx)];
    switch (action.kind) {
      case Kind::kAdd:
        one.rows.push_back(row(one.awake ? ReplicaState::kWaiting : ReplicaState::kStopped, input_.now_ms));
        rows.emplace_back();
        return;
      case Kind::kWake: each->state = ReplicaState::kWaiting; return;
      case Kind::kRest: each->state = ReplicaState::kStopped; return;
      case Kind::kPull:
        EXPECT_TRUE(one.files == FilesState::kMissing || one.files == FilesState::kBackoff);
        one.files = FilesState::kPulling;
        return;
      case Kind::kStart: return start(one, *each, rows[static_cast<size_t>(action.row_idx)], action.place);
      case Kind::kDrain:
        EXPECT_TRUE(each->state == ReplicaState::kLoading || each->state == ReplicaState::kReady);
        each->state = ReplicaState::kDraining;
        each->since_ms = input_.now_ms;
        return;
      case Kind::kTerminate:
        EXPECT_EQ(each->terminated_ms, 0);
        EXPECT_TRUE(each->in_flight == 0 || input_.now_ms - each->since_ms >= input_.drain_timeout_ms);
        each->terminated_ms = input_.now_ms;
        return;
      case Kind::kKill: each->killed = true; return;
      case Kind::kForgive: each->failures = 0; return;
      case Kind::kUnload:
      case Kind::kEvict:
        EXPECT_FALSE(one.pinned) << "a pinned model was sent away";
        EXPECT_EQ(one.waiting, 0);
        for (const PlanReplica& other : one.rows) {
          EXPECT_EQ(other.in_flight, 0);
          EXPECT_NE(other.state, ReplicaState::kLoading);
        }
        one.awake = false;
        return;
      default: return;
    }
  }

  void start(PlanModel& one, PlanReplica& each, Fate& fate, int32_t place) {
    const auto index = static_cast<size_t>(place);
    EXPECT_TRUE(one.suits.empty() ? place == 0 : one.suits[index]) << "on a machine that it does not suit";
    EXPECT_FALSE(place == 0 ? input_.drains : input_.nodes[index - 1].drains) << "on a machine that drains";
    EXPECT_TRUE(place == 0 || input_.nodes[index - 1].is_ready) << "on a machine that is lost";
    each.place = place;
    EXPECT_FALSE(each.is_live()) << "started twice";
    EXPECT_TRUE(each.current && !each.dismissed && one.awake && !one.leaving);
    EXPECT_TRUE(one.files == FilesState::kHere || place > 0);
    each.state = ReplicaState::kLoading;
    each.since_ms = input_.now_ms;
    each.killed = false;
    fate.ready_ms = input_.now_ms + number(100, 5000);
    if (!quiet_ && !kind_ && chance(0.2)) fate.dies_ms = input_.now_ms + number(0, 20000);
    if (!quiet_ && !kind_ && place == 0 && chance(0.1)) fate.hangs_ms = input_.now_ms + number(0, 20000);
  }

  void check() const {
    std::vector<int64_t> used(input_.nodes.size() + 1);
    std::vector<int32_t> loads(used.size());
    for (const PlanModel& one : input_.models) {
      int32_t current = 0, up = 0;
      for (const PlanReplica& each : one.rows) {
        if (!each.is_live()) continue;
        const auto place = static_cast<size_t>(each.place);
        used[place] += one.needs_bytes;
        loads[place] += each.state == ReplicaState::kLoading ? 1 : 0;
        const bool stays = place == 0 ? !input_.drains : !input_.nodes[place - 1].drains;
        EXPECT_TRUE(place == 0 || input_.nodes[place - 1].is_ready || each.state == ReplicaState::kDraining);
        current +=
            stays && each.current && !each.dismissed && each.state != ReplicaState::kDraining && !each.killed ? 1 : 0;
        up += each.state != ReplicaState::kDraining && !each.dismissed ? 1 : 0;
      }
      EXPECT_LE(current, wanted_replicas(one)) << "more than is wished";
      // With other machines those that come back may stand beside the old ones too.
      const int32_t most = input_.nodes.empty() ? wanted_replicas(one) + 1 : 2 * wanted_replicas(one) + 1;
      EXPECT_LE(up, std::max(most, 4)) << "more than one beside the old ones";
    }
    for (size_t place = 0; place < used.size(); ++place) {
      const int64_t budget = place == 0 ? input_.budget_bytes : input_.nodes[place - 1].budget_bytes;
      EXPECT_LE(used[place], budget) << "over the budget";
      EXPECT_LE(loads[place], input_.loads_max);
    }
  }

  std::mt19937_64 random_;
  bool kind_;  // nothing fails
  bool quiet_ = false;
  std::vector<std::vector<Fate>> fates_;
};

TEST(FleetPlanner, InvariantsHoldInEveryHistory) {
  for (uint64_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    World world(seed, false);
    world.run(150);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// The same with machines that are cut off, come back and drain.
TEST(FleetPlanner, InvariantsHoldOnSeveralMachines) {
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    World world(seed, false, 3);
    world.run(150);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(FleetPlanner, TheWishIsReachedOnSeveralMachines) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    World world(seed, seed % 2 == 0, 3);
    world.run(100);
    world.settle();
    std::vector<int64_t> free = {world.input_.budget_bytes};
    for (const PlanNode& node : world.input_.nodes) free.push_back(node.budget_bytes);
    for (const PlanModel& one : world.input_.models) {
      for (const PlanReplica& each : one.rows)
        free[static_cast<size_t>(each.place)] -= each.is_live() ? one.needs_bytes : 0;
    }
    for (const PlanModel& one : world.input_.models) {
      int32_t ready = 0;
      for (const PlanReplica& each : one.rows) ready += each.state == ReplicaState::kReady ? 1 : 0;
      EXPECT_LE(ready, wanted_replicas(one)) << "seed " << seed;
      if (ready == wanted_replicas(one)) continue;
      for (size_t place = 0; place < free.size(); ++place) {
        if (one.suits[place]) {
          EXPECT_GT(one.needs_bytes, free[place]) << "there is room at " << place << ", seed " << seed;
        }
      }
    }
  }
}

// Nothing fails any more: what is awake and fits has its replicas, what is not has none.
TEST(FleetPlanner, TheWishIsReached) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    World world(seed, seed % 2 == 0);
    world.run(100);
    world.settle();
    int64_t free = world.input_.budget_bytes;
    for (const PlanModel& one : world.input_.models) {
      for (const PlanReplica& each : one.rows) free -= each.is_live() ? one.needs_bytes : 0;
    }
    for (const PlanModel& one : world.input_.models) {
      int32_t ready = 0;
      for (const PlanReplica& each : one.rows) ready += each.state == ReplicaState::kReady ? 1 : 0;
      if (wanted_replicas(one) == 0) {
        EXPECT_EQ(ready, 0) << "seed " << seed;
      } else if (ready < wanted_replicas(one)) {
        EXPECT_GT(one.needs_bytes, free) << "there is room, seed " << seed;
      }
      EXPECT_LE(ready, wanted_replicas(one)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace quern
