// The planner where machines have devices with memory of their own.
#include <gtest/gtest.h>

#include <string>

#include "platform/fleet/fleet_planner.h"

namespace quern {
namespace {

PlanModel device_model(int64_t needs) {
  return {.needs_bytes = needs, .device = "cpu", .kinds = {}, .rows = {}};
}

PlanReplica device_row(ReplicaState state) {
  PlanReplica one;
  one.state = state;
  return one;
}

std::vector<PlanAction::Kind> action_kinds(const std::vector<PlanAction>& actions) {
  std::vector<PlanAction::Kind> found;
  for (const PlanAction& action : actions) found.push_back(action.kind);
  return found;
}

// Two devices of 100 beside a main memory of 30, and models of 60 that take any of them.
PlanInput two_devices(size_t num_models) {
  PlanInput input{.now_ms = 100000, .budget_bytes = 30, .models = {}};
  input.devices = {{.id = "cuda:0", .budget_bytes = 100}, {.id = "cuda:1", .budget_bytes = 90}};
  input.loads_max = 1;
  for (size_t i = 0; i < num_models; ++i) {
    input.models.push_back(device_model(60));
    input.models.back().kinds = {"cuda"};
    input.models.back().rows = {device_row(ReplicaState::kWaiting)};
  }
  return input;
}

PlanReplica ready_on(const char* device, int64_t now_ms) {
  PlanReplica one = device_row(ReplicaState::kReady);
  one.answered_ms = now_ms;
  one.devices = {device};
  return one;
}

std::vector<std::string> start_devices(const PlanInput& input) {
  std::vector<std::string> found;
  for (const PlanAction& action : plan_fleet(input)) {
    for (const std::string& id : action.devices) found.push_back(id);
  }
  return found;
}

TEST(FleetPlannerDevices, EveryDeviceHasItsBudgetAndItsLoads) {
  EXPECT_EQ(start_devices(two_devices(2)), (std::vector<std::string>{"cuda:0", "cuda:1"}));
  PlanInput input = two_devices(3);
  auto actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions),
            (std::vector{PlanAction::Kind::kStart, PlanAction::Kind::kStart, PlanAction::Kind::kWaits}));
  EXPECT_EQ(actions[2].reason, "waits for another model to load");
  input.loads_max = 8;
  EXPECT_EQ(action_kinds(plan_fleet(input)),
            (std::vector{PlanAction::Kind::kStart, PlanAction::Kind::kStart, PlanAction::Kind::kWaits}))
      << "60 + 60 > 100";
  input = two_devices(2);
  for (PlanModel& one : input.models) one.rows[0].wish = {"cuda:1"};
  EXPECT_EQ(start_devices(input), std::vector<std::string>{"cuda:1"}) << "two loads never share a device";
  input = two_devices(1);
  input.devices.clear();
  input.models[0].needs_bytes = 20;
  actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), std::vector{PlanAction::Kind::kStart});
  EXPECT_TRUE(actions[0].devices.empty()) << "main memory where there is no device";
}

TEST(FleetPlannerDevices, TheLeastNeededOfThatDeviceGoes) {
  PlanInput input = two_devices(4);
  const char* devices[] = {"cuda:0", "cuda:1"};
  for (size_t i = 0; i < 2; ++i) input.models[i].rows = {ready_on(devices[i], input.now_ms)};
  input.models[2].kinds.clear();
  input.models[2].needs_bytes = 25;
  input.models[2].rows = {device_row(ReplicaState::kReady)};
  input.models[2].rows[0].answered_ms = input.now_ms;
  input.models[0].last_used_ms = 10;
  input.models[1].last_used_ms = 20;
  input.models[3].rows[0].wish = {"cuda:1"};
  auto actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), (std::vector{PlanAction::Kind::kEvict, PlanAction::Kind::kWaits}));
  EXPECT_EQ(actions[0].model_idx, 1) << "not the least needed of all";
  EXPECT_EQ(actions[1].reason, "waits for memory on cuda:1: needs 1 MiB, 1 MiB are free");
  // What has just ended there is measured first: nobody else is sent away meanwhile.
  input.models[1].rows[0] = device_row(ReplicaState::kStopped);
  input.models[1].awake = false;
  input.devices[1] = {.id = "cuda:1", .budget_bytes = 40, .is_settling = true};
  EXPECT_EQ(action_kinds(plan_fleet(input)), std::vector{PlanAction::Kind::kWaits});
  input.devices[1] = {.id = "cuda:1", .budget_bytes = 90};
  EXPECT_EQ(start_devices(input), std::vector<std::string>{"cuda:1"});
}

TEST(FleetPlannerDevices, WhatNoDeviceHoldsIsToldInNumbers) {
  PlanInput input = two_devices(1);
  PlanModel& one = input.models[0];
  one.needs_bytes = 101;
  for (PlanDevice& device : input.devices) device.budget_bytes = *device.budget_bytes << 20;
  one.needs_bytes <<= 20;
  auto actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), std::vector{PlanAction::Kind::kWaits});
  EXPECT_EQ(actions[0].reason, "needs 101 MiB of memory on cuda:0, 100 MiB are there for models");
  one.num_devices = 2;
  EXPECT_EQ(start_devices(input), (std::vector<std::string>{"cuda:0", "cuda:1"})) << "half on each";
  one.rows[0].wish = {"cuda:0", "cuda:1"};
  one.needs_bytes = int64_t{190} << 20;
  actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), std::vector{PlanAction::Kind::kWaits}) << "one of them has not its half";
  input.knows_devices = false;
  EXPECT_EQ(plan_fleet(input)[0].reason, "waits until the devices of its machine are known");
  input.devices[1].budget_bytes.reset();
  input.knows_devices = true;
  EXPECT_EQ(action_kinds(plan_fleet(input)), std::vector{PlanAction::Kind::kStart})
      << "what is not known is not counted";
}

TEST(FleetPlannerDevices, NothingStartsWhereDevicesAreNotKnown) {
  PlanInput input = two_devices(1);
  input.drains = true;
  input.nodes = {{.budget_bytes = 100, .devices = {}, .knows_devices = false, .is_ready = true}};
  PlanModel& one = input.models[0];
  one.suits = {true, true};
  EXPECT_EQ(plan_fleet(input)[0].reason, "waits until the devices of its machine are known");
  one.rows[0].wish = {"cuda:0"};
  EXPECT_EQ(plan_fleet(input)[0].reason, "waits until the devices of its machine are known");
  input.nodes[0].knows_devices = true;
  const auto actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), std::vector{PlanAction::Kind::kStart});
  EXPECT_EQ(actions[0].place, 1);
}

TEST(FleetPlannerDevices, WhatHasToBeNamedIsNotTakenByItsKind) {
  PlanInput input = two_devices(1);
  input.devices[0].must_be_named = true;
  EXPECT_EQ(start_devices(input), std::vector<std::string>{"cuda:1"});
  input.models[0].rows[0].wish = {"cuda:0"};
  EXPECT_EQ(start_devices(input), std::vector<std::string>{"cuda:0"});
  // Main memory holds what no device ever can, not what one cannot now.
  input = two_devices(1);
  input.budget_bytes = 200;
  input.models[0].needs_bytes = 150;
  auto actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), std::vector{PlanAction::Kind::kStart});
  EXPECT_TRUE(actions[0].devices.empty());
  for (PlanDevice& device : input.devices) {
    device.total_bytes = 200;
    device.reserve_bytes = 20;
  }
  actions = plan_fleet(input);
  ASSERT_EQ(action_kinds(actions), std::vector{PlanAction::Kind::kWaits}) << "others hold a part for a while";
}

TEST(FleetPlannerDevices, AGroupIsOfOneKind) {
  PlanInput input = two_devices(1);
  PlanModel& one = input.models[0];
  one.kinds = {"cuda", "rocm"};
  one.num_devices = 2;
  input.devices[1].id = "rocm:0";
  EXPECT_EQ(plan_fleet(input)[0].reason, "needs 2 devices of one kind, 1 are there");
  input.devices.push_back({.id = "rocm:1", .budget_bytes = 95});
  EXPECT_EQ(start_devices(input), (std::vector<std::string>{"rocm:1", "rocm:0"}));
}

TEST(FleetPlannerDevices, AFailedLookMovesNobody) {
  PlanInput input = two_devices(1);
  PlanModel& one = input.models[0];
  one.rows = {ready_on("cuda:1", input.now_ms)};
  one.rows[0].state = ReplicaState::kLoading;
  one.rows[0].since_ms = input.now_ms;
  one.suits = {false};
  one.keeps = {true};
  input.devices.pop_back();
  EXPECT_TRUE(plan_fleet(input).empty());
  one.rows = {device_row(ReplicaState::kWaiting)};
  EXPECT_EQ(plan_fleet(input)[0].reason, "waits for a machine that it suits");
  one.rows = {ready_on("cuda:1", input.now_ms)};
  one.keeps = {false};
  EXPECT_FALSE(plan_fleet(input).empty()) << "its labels, say, are others now";
}

// Of 1000 the engine takes 900 whatever the model needs, and so leaves the reserve itself.
TEST(FleetPlannerDevices, AnEngineMayTakeAPartOfTheWhole) {
  PlanInput input = two_devices(2);
  input.loads_max = 8;
  input.devices = {{.id = "cuda:0", .budget_bytes = 890, .total_bytes = 1000, .reserve_bytes = 100}};
  for (PlanModel& one : input.models) one.needs_bytes = 50;
  input.models[0].device_fraction = 0.9;
  EXPECT_EQ(action_kinds(plan_fleet(input)), (std::vector{PlanAction::Kind::kStart, PlanAction::Kind::kWaits}))
      << "990 are free: 900 fit, and no 50 beside them";
  input.models[0].rows = {ready_on("cuda:0", input.now_ms)};
  input.models[0].rows[0].in_flight = 1;
  EXPECT_EQ(action_kinds(plan_fleet(input)), std::vector{PlanAction::Kind::kWaits});
  input.models[0].device_fraction = 0.5;
  EXPECT_EQ(start_devices(input), std::vector<std::string>{"cuda:0"});
}

}  // namespace
}  // namespace quern
