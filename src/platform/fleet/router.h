// Which replica of a model gets a request. Plain data and arithmetic: no clock, no lock, no random numbers; times are
// milliseconds of one steady clock that the caller reads. Not thread-safe: the fleet holds a lock around it.
//
// Order of the rules: a session stays with its replica; then the replica that knows the longest beginning of the
// prompt, unless it has markedly more to do than the least loaded one; then the least loaded. Left out are replicas
// that are not ready, that have failed this request, and those whose circuit is open: after three requests in a row
// that found no worker, none is sent for a second (then two, four … at most 30), then one, whose end decides.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "platform/fleet/fleet.h"

namespace quern {

// The values seen last, at most so many; the one not seen longest goes.
template <class Value>
class RecentMap {
 public:
  explicit RecentMap(size_t size_max) : size_max_(size_max) {}
  // Null when it is not there. Seeing one makes it recent.
  Value* find(uint64_t key) {
    const auto it = places_.find(key);
    if (it == places_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return &it->second->second;
  }
  void put(uint64_t key, Value value) {
    if (Value* known = find(key)) {
      *known = std::move(value);
      return;
    }
    order_.emplace_front(key, std::move(value));
    places_[key] = order_.begin();
    if (places_.size() <= size_max_) return;
    places_.erase(order_.back().first);
    order_.pop_back();
  }
  bool contains(uint64_t key) const { return places_.contains(key); }
  size_t size() const { return places_.size(); }

 private:
  size_t size_max_;
  std::list<std::pair<uint64_t, Value>> order_;  // the most recent first
  std::unordered_map<uint64_t, typename std::list<std::pair<uint64_t, Value>>::iterator> places_;
};

// How a worker is asked for an adapter of its model.
struct AdapterCall {
  std::string model;   // what stands in the body's `model`
  std::string fields;  // members that the body gets besides, or empty
};
using AdapterCalls = std::map<std::string, AdapterCall, std::less<>>;  // by the adapter's name

// A replica's way to its worker, copied into each lease.
struct RouteTarget {
  std::string replica;  // "UID-0"
  std::string address, base_path, api_key, model, engine;
  std::string fields;                            // as in Lease
  std::shared_ptr<const AdapterCalls> adapters;  // null: none
};

class Router {
 public:
  static constexpr size_t kPrefixesMax = 8192;   // hashes remembered of a replica
  static constexpr size_t kSessionsMax = 16384;  // of a model
  static constexpr int32_t kFailuresMax = 3;     // in a row, before a circuit opens

  // What a model admits, and which adapters it has. Unknown models are refused by pick().
  void set_model(const std::string& uid, int32_t request_limit, const std::vector<std::string>& adapters = {});
  void close_model(const std::string& uid);  // takes no new requests; those that run are still counted
  void remove_model(const std::string& uid);
  bool knows(const std::string& uid) const;                          // and takes requests
  std::optional<ServedName> resolve(const std::string& name) const;  // as Fleet does

  // A worker is ready. `life` differs for each process that a replica has had; a new life knows no prefix and no
  // failure.
  void set_ready(const std::string& uid, const RouteTarget& target, uint64_t life);
  void set_gone(const std::string& uid, const std::string& replica);  // gets nothing new; what it has goes on

  // A request comes in, waits perhaps, and leaves; between the two it counts against the limit. False: one too many.
  bool admit(const std::string& uid);
  void leave(const std::string& uid, int64_t now_ms);

  struct Pick {
    RouteTarget target;
    uint64_t life = 0;
  };
  // The request runs on the picked replica until finish(). nullopt: none is there to take it now. A replica of `tried`
  // counts again once it has a life above `tried_life`.
  std::optional<Pick> pick(const RouteRequest& request, uint64_t tried_life, int64_t now_ms);
  void finish(const std::string& uid, const std::string& replica, uint64_t life, Lease::Outcome outcome,
              int64_t now_ms);

  struct ReplicaLoad {
    int32_t in_flight = 0;
    bool open = false;  // its circuit
  };
  ReplicaLoad load(const std::string& uid, const std::string& replica) const;
  int32_t admitted(const std::string& uid) const;
  int64_t last_used_ms(const std::string& uid) const;  // when a request came or left last; 0: never
  // When a circuit of the model will let a request through: the earliest, or nullopt when none is open.
  std::optional<int64_t> next_trial_ms(const std::string& uid) const;

 private:
  struct Replica {
    RouteTarget target;
    uint64_t life = 0;
    bool ready = false;
    int32_t in_flight = 0;
    int64_t picked = 0;  // count of picks at its last one: the longest not picked wins a tie
    int32_t failures = 0;
    int64_t open_until_ms = 0;
    bool on_trial = false;
    RecentMap<char> prefixes{kPrefixesMax};
  };
  struct Model {
    int32_t request_limit = 0;
    int32_t admitted = 0;
    bool closed = false;
    int64_t last_used_ms = 0;
    std::vector<std::string> adapters;
    std::map<std::string, Replica> replicas;
    RecentMap<std::string> sessions{kSessionsMax};
  };

  bool is_usable(const Replica& replica, const RouteRequest& request, uint64_t tried_life, int64_t now_ms) const;
  Replica* choose(Model& model, const RouteRequest& request, uint64_t tried_life, int64_t now_ms);
  static size_t known_prefix(Replica& replica, const std::vector<uint64_t>& prefix);

  void forget_adapters(const std::string& uid, const Model& model);

  std::map<std::string, Model, std::less<>> models_;
  std::map<std::string, std::vector<std::string>> adapters_;  // by name the models that have it, in order of launch
  int64_t picks_ = 0;
};

}  // namespace quern
