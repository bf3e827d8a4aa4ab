// A fleet whose workers are given addresses: for tests of the door and for measuring it. Nothing is launched.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "platform/fleet/fleet.h"

namespace quern::door {

struct StaticReplica {
  std::string id, address;
};

struct StaticModel {
  std::vector<StaticReplica> replicas;
  std::string model, api_key, base_path, fields;  // as Lease tells them
};

class StaticFleet final : public Fleet {
 public:
  std::map<std::string, StaticModel> models_by_uid;  // filled before requests come
  std::map<std::string, ServedName> adapters_by_name;
  std::optional<RouteRefusal> refusal;  // for every request, when it is there
  std::function<void(const RouteRequest&)> on_request;

  std::map<std::string, int> outcomes() const {  // "r0 refused" -> how often
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }

  bool knows(const std::string& uid) const override { return models_by_uid.contains(uid); }
  std::optional<ServedName> resolve(const std::string& name) const override {
    const auto adapter = adapters_by_name.find(name);
    return adapter == adapters_by_name.end() ? Fleet::resolve(name) : adapter->second;
  }
  std::vector<ModelView> models() const override {
    std::vector<ModelView> views;
    for (const auto& [uid, model] : models_by_uid) views.push_back(view(uid, model));
    return views;
  }
  std::optional<ModelView> model(const std::string& uid) const override {
    const auto found = models_by_uid.find(uid);
    if (found == models_by_uid.end()) return std::nullopt;
    return view(uid, found->second);
  }

  std::vector<WorkerWay> ways(const std::string& uid) const override {
    std::vector<WorkerWay> ways;
    const auto found = models_by_uid.find(uid);
    if (found == models_by_uid.end()) return ways;
    for (const StaticReplica& replica : found->second.replicas) {
      WorkerWay way;
      way.replica = replica.id;
      way.node = "local";
      way.address = replica.address;
      way.api_key = found->second.api_key;
      way.ready = true;
      ways.push_back(std::move(way));
    }
    return ways;
  }

  void lease(RouteRequest request, std::chrono::milliseconds, std::function<void(LeaseResult)> done) override {
    if (on_request) on_request(request);
    if (refusal) return done(std::unexpected(*refusal));
    const StaticModel& model = models_by_uid.at(request.uid);
    std::vector<const StaticReplica*> left;
    for (const StaticReplica& replica : model.replicas) {
      if (std::ranges::find(request.tried, replica.id) == request.tried.end()) left.push_back(&replica);
    }
    if (left.empty()) {
      return done(std::unexpected(
          RouteRefusal{.reason = RouteRefusal::Reason::kUnavailable, .message = "no replica is left to try"}));
    }
    // In order, so that tests know which is asked first.
    done(std::make_unique<StaticLease>(*this, model, *left.front()));
  }

  Result<std::string> launch(LaunchSpec) override { return unsupported("nothing is launched here"); }
  Status terminate(const std::string&) override { return unsupported("nothing is launched here"); }
  Status update(LaunchSpec) override { return unsupported("nothing is launched here"); }
  Status set_replicas(const std::string&, int32_t) override { return unsupported("nothing is launched here"); }
  Status stop_replica(const std::string&, const std::string&) override {
    return unsupported("nothing is launched here");
  }
  Status unload(const std::string&) override { return unsupported("nothing is launched here"); }
  std::vector<FleetEvent> events(const std::string&, int64_t) const override { return {}; }
  Result<std::string> log_tail(const std::string&, const std::string&, size_t) const override { return ""; }

 private:
  class StaticLease final : public Lease {
   public:
    StaticLease(StaticFleet& fleet, const StaticModel& model, const StaticReplica& replica)
        : fleet_(fleet), model_(model), replica_(replica) {}
    const std::string& replica() const override { return replica_.id; }
    const std::string& address() const override { return replica_.address; }
    const std::string& base_path() const override { return model_.base_path; }
    const std::string& api_key() const override { return model_.api_key; }
    const std::string& model() const override { return model_.model; }
    const std::string& engine() const override { return engine_; }
    const std::string& fields() const override { return model_.fields; }
    void finish(Outcome outcome) override {
      constexpr const char* kNames[] = {"ok", "refused", "broken", "overloaded", "abandoned"};
      const std::lock_guard lock(fleet_.mutex_);
      ++fleet_.outcomes_[replica_.id + " " + kNames[static_cast<int>(outcome)]];
    }

   private:
    StaticFleet& fleet_;
    const StaticModel& model_;
    const StaticReplica& replica_;
    const std::string engine_ = "quern";
  };

  static ModelView view(const std::string& uid, const StaticModel& model) {
    ModelView view;
    view.spec.uid = uid;
    view.state = ModelState::kReady;
    view.context = 1024;
    for (const StaticReplica& replica : model.replicas) {
      view.replicas.push_back({.id = replica.id, .state = ReplicaState::kReady, .address = replica.address});
    }
    return view;
  }

  mutable std::mutex mutex_;
  std::map<std::string, int> outcomes_;  // guarded by mutex_
};

}  // namespace quern::door
