// What passes between machines, and which machine suits a launch.
#include "platform/fleet/node.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "platform/fleet/node_certificate.h"

namespace quern {
namespace {

NodeJoin gpu_node() {
  NodeJoin join;
  join.name = "rack-1";
  join.address = "https://10.0.0.2:9998#sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
  join.key = std::string(48, 'a');
  join.labels = {{"zone", "a"}, {"gpu", "yes"}};
  join.machine.version = "0.1.0";
  join.machine.memory_total = 64LL << 30;
  join.machine.memory_budget = 50LL << 30;
  join.machine.cpu_load = 1.5;
  join.machine.engines = {"quern", "vllm"};
  join.machine.devices =
      Json::parse(R"([{"id":"cpu","kind":"cpu"},{"id":"cuda:0","kind":"cuda"},{"id":"cuda:1","kind":"cuda"}])");
  return join;
}

TEST(FleetNode, WhatIsWrittenIsReadAgain) {
  const NodeJoin join = gpu_node();
  const auto again = node_join_from_json(to_json(join));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(join));

  NodeReport report{.machine = join.machine, .replicas = {}};
  report.replicas.push_back({.name = "m-0@12",
                             .state = ReplicaState::kLoading,
                             .failed = true,
                             .pid = 7,
                             .memory_bytes = 1 << 20,
                             .restarts = 2,
                             .load_seconds = 0.5,
                             .progress = 0.25,
                             .message = "a\tb\x1b[0m"});
  const auto reported = node_report_from_json(to_json(report));
  ASSERT_TRUE(reported) << reported.error().message;
  EXPECT_EQ(reported->replicas[0].message, "a b [0m") << "one line without what moves a cursor";
  EXPECT_EQ(to_json(*reported), to_json(report));

  LaunchSpec spec;
  spec.uid = "m";
  spec.model_name = "smollm2";
  spec.engine_options["threads"] = "1";
  const auto wishes = node_wishes_from_json(to_json(std::vector<NodeWish>{{"m-0@12", spec}, {"m-1@34", std::nullopt}}));
  ASSERT_TRUE(wishes) << wishes.error().message;
  ASSERT_EQ(wishes->size(), 2U);
  EXPECT_EQ((*wishes)[0].spec->to_json(), spec.to_json());
  EXPECT_FALSE((*wishes)[1].spec);
}

TEST(FleetNode, WhatIsWrongIsRefusedByName) {
  const auto refused = [](const char* field, const Json& value) {
    Json body = to_json(gpu_node());
    body[field] = value;
    const auto join = node_join_from_json(body);
    return join ? std::string("taken") : join.error().message;
  };
  EXPECT_EQ(refused("name", "rack-2"), "taken");
  EXPECT_TRUE(refused("name", "local").starts_with("name: "));
  EXPECT_TRUE(refused("name", "a/b").starts_with("name: "));
  EXPECT_TRUE(refused("name", nullptr).starts_with("name: "));
  EXPECT_TRUE(refused("address", "unix:/tmp/x").starts_with("address: "));
  EXPECT_TRUE(refused("address", "http://10.0.0.2:1#sha256//x").starts_with("address: "));
  EXPECT_TRUE(refused("key", "short").starts_with("key: "));
  EXPECT_TRUE(refused("key", std::string(40, '\n')).starts_with("key: "));
  EXPECT_TRUE(refused("labels", {{"a b", "c"}}).starts_with("labels"));
  EXPECT_TRUE(refused("machine", 3).starts_with("machine"));
  EXPECT_TRUE(refused("machine", {{"devices", {{{"id", 3}, {"kind", "cpu"}}}}}).starts_with("machine.devices[0].id"));
  EXPECT_TRUE(refused("machine", {{"memory_total", -1}}).starts_with("machine.memory_total"));
  EXPECT_FALSE(node_report_from_json(Json::array()));
  EXPECT_FALSE(node_wishes_from_json(Json::object())) << "no list is not an empty list: nothing must end by it";
}

TEST(FleetNode, LabelsDeviceAndEngineDecide) {
  const NodeJoin node = gpu_node();
  LaunchSpec spec;
  spec.uid = "m";
  EXPECT_TRUE(node_suits(node, spec));
  spec.node_labels = {{"zone", "a"}};
  EXPECT_TRUE(node_suits(node, spec));
  spec.node_labels["gpu"] = "no";
  EXPECT_FALSE(node_suits(node, spec));
  spec.node_labels = {{"name", "rack-1"}, {"address", "10.0.0.2"}};
  EXPECT_TRUE(node_suits(node, spec));
  spec.node_labels = {{"address", "10.0.0.3"}};
  EXPECT_FALSE(node_suits(node, spec));
  spec.node_labels.clear();
  spec.engine = "vllm";
  spec.device = "cuda:0,1";
  EXPECT_TRUE(node_suits(node, spec));
  spec.device = "cuda:2";
  EXPECT_FALSE(node_suits(node, spec));
  NodeJoin young = node;
  young.machine.devices = Json::array();
  EXPECT_FALSE(knows_devices(young.machine));
  EXPECT_TRUE(node_suits(young, spec)) << "it may have it, once it has looked";
  spec.device = "auto";
  spec.engine = "sglang";
  EXPECT_FALSE(node_suits(node, spec));
  spec.engine = "openai";
  EXPECT_FALSE(node_suits(node, spec));
  EXPECT_EQ(uid_of_node_replica(node_replica_name("org/m-1:x@2-0", "ab")), "org/m-1:x@2");
}

TEST(FleetNode, ACertificateIsMadeOnceAndKeptFromOthers) {
  const auto folder = std::filesystem::temp_directory_path() / ("quern_node_test_" + std::to_string(::getpid()));
  const auto made = own_certificate(folder);
  ASSERT_TRUE(made) << made.error().message;
  struct stat info{};
  ASSERT_EQ(::stat(made->key_file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const auto pin = public_key_pin(made->cert_file);
  ASSERT_TRUE(pin) << pin.error().message;
  EXPECT_TRUE(pin->starts_with("sha256//"));
  ASSERT_TRUE(own_certificate(folder));
  EXPECT_EQ(*public_key_pin(made->cert_file), *pin);
  EXPECT_FALSE(public_key_pin(made->key_file));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace quern
