#include "server/http/server.h"

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

namespace quern::http {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

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
  void stop() override;
  void join() override;

  const ServerOptions& options() const override { return options_; }
  const Handler& handler() const override { return handler_; }
  bool stopping() const override { return stopping_.load(std::memory_order_relaxed); }

 private:
  asio::awaitable<void> accept();
  asio::awaitable<void> serve(tcp::socket socket);
  asio::awaitable<void> drain();
  std::vector<std::shared_ptr<Connection>> connections();

  const ServerOptions options_;
  const Handler handler_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::list<std::weak_ptr<Connection>> connections_;  // guarded by mutex_
  std::atomic<int32_t> num_connections_{0};
  std::mutex join_mutex_;
  std::vector<std::thread> threads_;  // guarded by join_mutex_
};

Status ServerImpl::listen() {
  error_code error;
  const auto address = asio::ip::make_address(options_.host == "localhost" ? "127.0.0.1" : options_.host, error);
  if (error) return invalid_argument(fmt::format("--host {}: not an IP address", options_.host));
  const tcp::endpoint endpoint(address, options_.port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return io_error(fmt::format("cannot listen on {}:{}: {}", options_.host, options_.port, error.message()));
  port_ = acceptor_.local_endpoint().port();
  return {};
}

void ServerImpl::run() {
  asio::co_spawn(context_, accept(), asio::detached);
  for (int32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { context_.run(); });
}

asio::awaitable<void> ServerImpl::accept() {
  while (!stopping()) {
    error_code error;
    tcp::socket socket(asio::make_strand(context_));
    co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (stopping()) break;
    if (error) {  // out of descriptors, usually: try again when some are free
      asio::steady_timer pause(context_, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (num_connections_.load() >= options_.connections_max) continue;  // the socket closes
    socket.set_option(tcp::no_delay(true), error);
    const auto executor = socket.get_executor();
    num_connections_.fetch_add(1);
    asio::co_spawn(executor, serve(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> ServerImpl::serve(tcp::socket socket) {
  const auto connection = make_connection(std::move(socket), *this);
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

asio::awaitable<void> ServerImpl::drain() {
  error_code ignored;
  acceptor_.close(ignored);
  const auto deadline = std::chrono::steady_clock::now() + options_.drain_timeout;
  while (num_connections_.load() > 0) {
    const bool late = std::chrono::steady_clock::now() >= deadline;
    for (const auto& connection : connections()) late ? connection->close_now() : connection->close_if_idle();
    asio::steady_timer pause(context_, std::chrono::milliseconds(20));
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
