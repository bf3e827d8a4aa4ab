#include "platform/fleet/fleet_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace quern {
namespace {

namespace fs = std::filesystem;

class FleetStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = fs::temp_directory_path() / ("fleet-store-" + std::to_string(::getpid())); }
  void TearDown() override {
    store_.reset();
    fs::remove_all(folder_);
  }
  void open() {
    store_.reset();
    notes_.clear();
    auto opened = FleetStore::open(folder_, notes_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }

  fs::path folder_;
  std::vector<std::string> notes_;
  std::unique_ptr<FleetStore> store_;
};

TEST_F(FleetStoreTest, WhatIsPutIsThereAgain) {
  open();
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  StoredModelRow row{.spec = {.uid = "b", .model_name = "m", .replicas = 2}, .created = 7, .awake = false};
  ASSERT_TRUE(store_->put_model(row));
  row.spec.uid = "a";
  ASSERT_TRUE(store_->put_model(row));
  row.spec.uid = "b";
  row.spec.replicas = 5;
  ASSERT_TRUE(store_->put_model(row));
  StoredWorkerRow worker{.replica = "b-0",
                         .uid = "b",
                         .process = {.pid = 12, .start_time = 345},
                         .address = "unix:/x",
                         .base_path = "/p",
                         .api_key = "k",
                         .model = "n",
                         .digest = "d",
                         .started_ms = 99,
                         .dismissed = true,
                         .devices = "cuda:0,1"};
  ASSERT_TRUE(store_->put_worker(worker));
  open();
  const auto models = store_->models(notes_);
  ASSERT_TRUE(models && models->size() == 2);
  EXPECT_EQ((*models)[0].spec.uid, "b") << "by time of launch";
  EXPECT_EQ((*models)[0].spec.replicas, 5);
  EXPECT_EQ((*models)[0].created, 7);
  EXPECT_FALSE((*models)[0].awake);
  const auto workers = store_->workers();
  ASSERT_TRUE(workers && workers->size() == 1);
  const StoredWorkerRow& again = (*workers)[0];
  EXPECT_EQ(again.process.pid, 12);
  EXPECT_EQ(again.process.start_time, 345);
  EXPECT_EQ(again.address + again.base_path + again.api_key + again.model + again.digest, "unix:/x/pknd");
  EXPECT_EQ(again.started_ms, 99);
  EXPECT_TRUE(again.dismissed);
  EXPECT_EQ(again.devices, "cuda:0,1");
  ASSERT_TRUE(store_->remove_model("b"));
  EXPECT_EQ(store_->models(notes_)->size(), 1u);
  EXPECT_TRUE(store_->workers()->empty());
  EXPECT_TRUE(notes_.empty());
}

TEST_F(FleetStoreTest, OneAtATime) {
  open();
  const auto second = FleetStore::open(folder_, notes_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetStoreTest, TheLastThousandEventsOfEachAreKept) {
  open();
  for (int64_t id = 1; id <= FleetStore::kEventsMax + 20; ++id) {
    ASSERT_TRUE(store_->add_event({.id = id, .time_ms = id, .uid = id <= 5 ? "a" : "b", .kind = "k"}));
  }
  const auto events = store_->events();
  ASSERT_TRUE(events);
  EXPECT_EQ(events->size(), static_cast<size_t>(FleetStore::kEventsMax) + 5);
  EXPECT_EQ(events->front().uid, "a");
  EXPECT_EQ(events->at(5).id, 21);
}

TEST_F(FleetStoreTest, ABrokenFileIsSetAside) {
  for (const char* name : {"fleet.db.broken-1", "fleet.db.broken-2"}) {
    open();
    ASSERT_TRUE(store_->put_model({.spec = {.uid = "a", .model_name = "m"}}));
    store_.reset();
    fs::remove(folder_ / "fleet.db-wal");
    std::ofstream(folder_ / "fleet.db", std::ios::binary) << std::string(5000, 'x');
    open();
    ASSERT_EQ(notes_.size(), 1u);
    EXPECT_NE(notes_[0].find(name), std::string::npos) << notes_[0];
    EXPECT_EQ(fs::file_size(folder_ / name), 5000u);
    EXPECT_TRUE(store_->models(notes_)->empty());
  }
}

// Sound at the beginning, broken behind.
TEST_F(FleetStoreTest, ABrokenPageIsSeen) {
  open();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(store_->put_model({.spec = {.uid = "model-" + std::to_string(i), .model_name = "m"}}));
  }
  store_.reset();
  const auto size = static_cast<std::streamoff>(fs::file_size(folder_ / "fleet.db"));
  ASSERT_GT(size, 40000);
  std::fstream file(folder_ / "fleet.db", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(size / 2);
  file << std::string(8192, '\x7f');
  file.close();
  open();
  EXPECT_FALSE(notes_.empty());
  EXPECT_TRUE(fs::exists(folder_ / "fleet.db.broken-1"));
}

}  // namespace
}  // namespace quern
