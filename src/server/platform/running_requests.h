// The requests that models work on now, by id, so that another request can end one of them.
//
// Xinference's clients name a request in its body (`request_id`); everybody may in the header X-Request-Id.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/route.h"

namespace quern::platform {

inline constexpr size_t kBlockedIdsMax = 4096;
inline constexpr std::chrono::seconds kBlockMax{3600};

// Thread-safe.
class RunningRequests {
 public:
  using Work = std::function<http::asio::awaitable<void>(http::Reply&)>;

  // Runs the route's work as one that can be aborted: to it that looks as if its client had left. The client is told
  // then, in the route's dialect: 499, or an error in a stream that has begun.
  http::asio::awaitable<void> run(const http::Request& request, http::Reply& reply, const Route& route,
                                  const Work& work);

  // Ends what runs by this id; what comes by it within `block` ends at once. false: nothing of the id runs.
  bool abort(const std::string& id, std::chrono::seconds block);
  size_t num_running() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Handle {
    std::atomic<bool> aborted = false;
    std::shared_ptr<http::Signal> signal;
  };
  class AbortableReply;
  class Ticket;

  void add(const std::vector<std::string>& ids, const std::shared_ptr<Handle>& handle);
  void remove(const std::vector<std::string>& ids, const std::shared_ptr<Handle>& handle);

  mutable std::mutex mutex_;
  std::multimap<std::string, std::shared_ptr<Handle>> running_;  // guarded by mutex_
  std::map<std::string, Clock::time_point> blocked_;             // guarded by mutex_; until when
};

}  // namespace quern::platform
