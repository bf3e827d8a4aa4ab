#include "server/http/server.h"

#include <unistd.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <list>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "server/http/connection.h"
#include "server/http/listener.h"

namespace quern::http {
namespace {

using boost::system::error_code;

constexpr std::chrono::milliseconds kTick{20};
constexpr std::chrono::seconds kFarewell{2};  // for the last words of requests whose time is up

class ServerImpl final : public Server, public Lobby {
 public:
  ServerImpl(const ServerOptions& options, Handler handler)
      : options_(options), handler_(std::move(handler)), acceptor_(context_) {}
  ~ServerImpl() override {
    stop();
    join();
  }

  Status listen();
  void run();

  uint16_t port() const override { return port_; }
  std::string address() const override;
  int32_t num_connections() const override { return num_connections_.load(); }
  asio::any_io_executor executor() override { return context_.get_executor(); }
  void stop() override;
  void join() override;

  const ServerOptions& options() const override { return options_; }
  const Handler& handler() const override { return handler_; }
  bool stopping() const override { return stopping_.load(std::memory_order_relaxed); }

 private:
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(Socket socket);
  asio::awaitable<void> drain();
  std::vector<std::shared_ptr<Connection>> connections();

  const ServerOptions options_;
  const Handler handler_;
  std::optional<asio::ssl::context> tls_;
  asio::io_context context_;
  Acceptor acceptor_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::list<std::weak_ptr<Connection>> connections_;  // guarded by mutex_
  std::atomic<int32_t> num_connections_{0};
  std::mutex join_mutex_;
  std::vector<std::thread> threads_;  // guarded by join_mutex_
};

Status ServerImpl::listen() {
  QUERN_ASSIGN(tls_, open_tls(options_));
  QUERN_TRY(open_listener(options_, acceptor_));
  port_ = port_of(acceptor_);
  return {};
}

std::string ServerImpl::address() const {
  if (!options_.unix_socket.empty()) return "unix:" + options_.unix_socket;
  const bool is_v6 = options_.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", tls_ ? "https" : "http", is_v6 ? "[" : "", options_.host, is_v6 ? "]" : "",
                     port_);
}

void ServerImpl::run() {
  asio::co_spawn(context_, accept(), asio::detached);
  for (int32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { context_.run(); });
}

asio::awaitable<void> ServerImpl::accept() {
  while (acceptor_.is_open()) {
    error_code error;
    Socket socket(asio::make_strand(context_));
    co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor_.is_open()) break;
    if (error) {  // out of descriptors, usually: try again when some are free
      asio::steady_timer pause(context_, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (num_connections_.load() >= options_.connections_max) continue;  // the socket closes
    socket.set_option(asio::ip::tcp::no_delay(true), error);
    const auto executor = socket.get_executor();
    num_connections_.fetch_add(1);
    asio::co_spawn(executor, serve(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> ServerImpl::serve(Socket socket) {
  const auto connection = make_connection(std::move(socket), tls_ ? &*tls_ : nullptr, *this);
  std::list<std::weak_ptr<Connection>>::iterator place;
  {
    const std::lock_guard lock(mutex_);
    place = connections_.insert(connections_.end(), connection);
  }
  try {
    co_await connection->run();
  } catch (const std::exception&) {
    // A connection that fails in the library underneath ends alone.
  }
  {
    const std::lock_guard lock(mutex_);
    connections_.erase(place);
  }
  num_connections_.fetch_sub(1);
}

std::vector<std::shared_ptr<Connection>> ServerImpl::connections() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Connection>> alive;
  for (const auto& weak : connections_) {
    if (auto connection = weak.lock()) alive.push_back(std::move(connection));
  }
  return alive;
}

void ServerImpl::stop() {
  if (stopping_.exchange(true)) return;
  asio::co_spawn(context_, drain(), asio::detached);
}

// Goes on listening while answers run, so that new requests hear 503 rather than nothing.
asio::awaitable<void> ServerImpl::drain() {
  error_code ignored;
  asio::steady_timer pause(context_);
  const auto deadline = std::chrono::steady_clock::now() + options_.drain_timeout;
  bool told = false;
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const auto open = connections();
    bool busy = false;
    for (const auto& connection : open) {
      busy |= connection->is_busy();
      connection->close_if_idle();
      if (now >= deadline && !told) connection->expire();
    }
    told |= now >= deadline;
    if (!busy || now >= deadline + kFarewell) break;
    pause.expires_after(kTick);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  acceptor_.close(ignored);
  if (!options_.unix_socket.empty()) ::unlink(options_.unix_socket.c_str());
  while (num_connections_.load() > 0) {
    for (const auto& connection : connections()) connection->close_now();
    pause.expires_after(kTick);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  context_.stop();
}

void ServerImpl::join() {
  const std::lock_guard lock(join_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Handler handler) {
  auto server = std::make_unique<ServerImpl>(options, std::move(handler));
  QUERN_TRY(server->listen());
  server->run();
  return server;
}

}  // namespace quern::http
