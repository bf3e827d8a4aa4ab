#include "server/door/connection_pool.h"

#include "base/status.h"

namespace quern::door {
namespace {

constexpr std::chrono::seconds kSweepPause{1};

}  // namespace

Result<std::unique_ptr<ConnectionPool>> ConnectionPool::create(PoolOptions options) {
  std::unique_ptr<ConnectionPool> pool(new ConnectionPool(std::move(options)));
  pool->tls_.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* tls = pool->tls_.get();
  if (tls == nullptr) return make_error(ErrorCode::kInternal, "TLS: no context");
  SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const std::string& file = pool->options_.ca_file;
  const int loaded =
      file.empty() ? SSL_CTX_set_default_verify_paths(tls) : SSL_CTX_load_verify_locations(tls, file.c_str(), nullptr);
  if (loaded != 1 && !file.empty()) return invalid_argument(fmt::format("{}: has no certificates", file));
  return pool;
}

std::optional<KeptConnection> ConnectionPool::take(const std::string& address) {
  std::deque<Kept> stale;  // closed without the lock
  const std::lock_guard lock(mutex_);
  drop_expired(Clock::now());
  const auto found = kept_.find(address);
  if (found == kept_.end()) return std::nullopt;
  while (!found->second.empty()) {
    Kept kept = std::move(found->second.back());
    found->second.pop_back();
    if (!kept.connection.is_stale()) return std::move(kept.connection);
    stale.push_back(std::move(kept));
  }
  kept_.erase(found);
  return std::nullopt;
}

void ConnectionPool::give(const std::string& address, KeptConnection connection) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  drop_expired(now);
  std::deque<Kept>& kept = kept_[address];
  if (kept.size() < options_.kept_max) kept.push_back({std::move(connection), now});
}

void ConnectionPool::forget(const std::string& address) {
  std::deque<Kept> gone;
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(address);
  if (found == kept_.end()) return;
  gone = std::move(found->second);
  kept_.erase(found);
}

size_t ConnectionPool::num_kept() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [address, kept] : kept_) count += kept.size();
  return count;
}

// Whoever takes or gives sweeps, at most once a second: what is left when no request comes any more is bounded.
void ConnectionPool::drop_expired(Clock::time_point now) {
  if (now - swept_ < kSweepPause) return;
  swept_ = now;
  for (auto entry = kept_.begin(); entry != kept_.end();) {
    std::deque<Kept>& kept = entry->second;
    while (!kept.empty() && now - kept.front().since > options_.idle_timeout) kept.pop_front();
    entry = kept.empty() ? kept_.erase(entry) : std::next(entry);
  }
}

}  // namespace quern::door
