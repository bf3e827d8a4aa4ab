#include "server/door/door_metrics.h"

#include "fmt/format.h"

namespace quern::door {
namespace {

constexpr size_t kKnownMax = 1000;
constexpr double kWaitBounds[] = {0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
constexpr const char* kOutcomes[] = {"ok", "refused", "broken", "overloaded", "abandoned"};
static_assert(std::size(kOutcomes) == ReplicaCounts::kNumOutcomes);
static_assert(static_cast<int>(Lease::Outcome::kAbandoned) == ReplicaCounts::kNumOutcomes - 1);

// What nobody holds can go.
template <class Map>
void make_room(Map& known) {
  for (auto entry = known.begin(); known.size() >= kKnownMax && entry != known.end();) {
    entry = entry->second.use_count() == 1 ? known.erase(entry) : std::next(entry);
  }
}

void head(std::string& out, const char* name, const char* type, const char* help) {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

}  // namespace

ModelCounts::ModelCounts() : wait_seconds(kWaitBounds), first_byte_seconds(kWaitBounds) {}

std::shared_ptr<ReplicaCounts> DoorMetrics::replica(const std::string& uid, const std::string& replica) {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(uid, replica);
  if (const auto found = replicas_.find(key); found != replicas_.end()) return found->second;
  make_room(replicas_);
  return replicas_[key] = std::make_shared<ReplicaCounts>();
}

std::shared_ptr<ModelCounts> DoorMetrics::model(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  if (const auto found = models_.find(uid); found != models_.end()) return found->second;
  make_room(models_);
  return models_[uid] = std::make_shared<ModelCounts>();
}

void DoorMetrics::render(std::string& out) const {
  const std::lock_guard lock(mutex_);
  if (models_.empty()) return;
  const auto labels = [](const std::pair<std::string, std::string>& key) {
    return fmt::format("model_name=\"{}\",replica=\"{}\"", label_value(key.first), label_value(key.second));
  };
  head(out, "quern_door_requests_total", "counter", "Requests carried to a worker, by what became of them.");
  for (const auto& [key, counts] : replicas_) {
    for (int i = 0; i < ReplicaCounts::kNumOutcomes; ++i) {
      out += fmt::format("quern_door_requests_total{{{},outcome=\"{}\"}} {}\n", labels(key), kOutcomes[i],
                         counts->outcomes[i].load());
    }
  }
  head(out, "quern_door_requests_in_flight", "gauge", "Requests that a worker answers now.");
  for (const auto& [key, counts] : replicas_) {
    out += fmt::format("quern_door_requests_in_flight{{{}}} {}\n", labels(key), counts->in_flight.load());
  }
  head(out, "quern_door_retries_total", "counter", "Requests that went to a worker again.");
  for (const auto& [uid, counts] : models_) {
    out += fmt::format("quern_door_retries_total{{model_name=\"{}\"}} {}\n", label_value(uid), counts->retries.load());
  }
  const auto histogram = [&](const char* name, const char* help, Histogram ModelCounts::* member) {
    head(out, name, "histogram", help);
    for (const auto& [uid, counts] : models_) {
      ((*counts).*member).render(name, fmt::format("model_name=\"{}\"", label_value(uid)), out);
    }
  };
  histogram("quern_door_wait_seconds", "Until a replica was free for the request.", &ModelCounts::wait_seconds);
  histogram("quern_door_first_byte_seconds", "From then on to the first byte of the answer.",
            &ModelCounts::first_byte_seconds);
}

}  // namespace quern::door
