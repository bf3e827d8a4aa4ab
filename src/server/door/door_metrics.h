// What the door counts of each model and each of its replicas. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "platform/fleet/fleet.h"
#include "server/metrics/metrics.h"

namespace quern::door {

// Requests that went to one replica.
struct ReplicaCounts {
  static constexpr int kNumOutcomes = 5;  // of Lease::Outcome
  std::atomic<uint64_t> outcomes[kNumOutcomes] = {};
  std::atomic<int64_t> in_flight = 0;
};

struct ModelCounts {
  ModelCounts();
  Histogram wait_seconds;        // for a replica; a model that loads makes it long
  Histogram first_byte_seconds;  // from then on to the first byte of the answer's body
  std::atomic<uint64_t> retries = 0;
  std::atomic<int64_t> clients = 0;  // requests that are here now, those that wait included; no lines of jobs
};

class DoorMetrics {
 public:
  // Live as long as the caller holds them. At most 1,000 replicas are known at once: of more, those that rest longest
  // by name go first.
  std::shared_ptr<ReplicaCounts> replica(const std::string& uid, const std::string& replica);
  std::shared_ptr<ModelCounts> model(const std::string& uid);

  void render(std::string& out) const;  // Prometheus text

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ReplicaCounts>> replicas_;  // guarded by mutex_
  std::map<std::string, std::shared_ptr<ModelCounts>> models_;                              // guarded by mutex_
};

}  // namespace quern::door
