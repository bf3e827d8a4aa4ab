#include "server/door/worker_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace quern::door {
namespace {

using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kBacklogPause{5};
// A machine that has gone, or whose link is cut, sends no word of it: these find out, whether something is on its way
// to it or an answer is waited for.
constexpr int kSilentSecondsMin = 2, kProbeSeconds = 1, kNumProbes = 4;
constexpr int kUnackedMsMax = 6000;

error_code last_error() {
  return {errno, boost::system::system_category()};
}

error_code broken() {
  return asio::error::connection_reset;
}

void notice_silence(int fd) {
  const auto set = [&](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSilentSecondsMin);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kNumProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnackedMsMax);
}

// Of the other side, as curl writes it.
std::string pin_of(SSL* tls) {
  X509* certificate = SSL_get0_peer_certificate(tls);
  if (certificate == nullptr) return "";
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);
  if (size <= 0) return "";
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(bytes, static_cast<size_t>(size), hash);
  OPENSSL_free(bytes);
  unsigned char text[4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1];
  EVP_EncodeBlock(text, hash, sizeof hash);
  return std::string("sha256//") + reinterpret_cast<const char*>(text);
}

}  // namespace

KeptConnection::KeptConnection(KeptConnection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), family_(other.family_), tls_(std::move(other.tls_)) {}

KeptConnection& KeptConnection::operator=(KeptConnection&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(family_, other.family_);
  std::swap(tls_, other.tls_);
  return *this;
}

KeptConnection::~KeptConnection() {
  tls_.reset();
  if (fd_ >= 0) ::close(fd_);
}

bool KeptConnection::is_stale() const {
  pollfd state{.fd = fd_, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) != 0;
}

error_code WorkerConnection::adopt(KeptConnection kept) {
  error_code error;
  socket_.assign(asio::generic::stream_protocol(kept.family_, kept.family_ == AF_UNIX ? 0 : IPPROTO_TCP), kept.fd_,
                 error);
  if (error) return error;
  kept.fd_ = -1;
  family_ = kept.family_;
  tls_ = std::move(kept.tls_);
  return {};
}

KeptConnection WorkerConnection::release() {
  error_code error;
  const int fd = socket_.release(error);
  closed_ = true;
  return {error ? -1 : fd, family_, std::move(tls_)};
}

void WorkerConnection::close() {
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<error_code> WorkerConnection::open(const WorkerAddress& address, SSL_CTX* tls,
                                                   std::chrono::milliseconds timeout) {
  opening_ = true;
  asio::steady_timer timer(socket_.get_executor(), timeout);
  timer.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (!cancelled && self->opening_) self->close();
  });
  error_code error;
  if (address.kind == WorkerAddress::Kind::kUnix) {
    error = co_await open_unix(address);
  } else {
    error = co_await open_tcp(address);
  }
  if (!error && address.kind == WorkerAddress::Kind::kTls) error = co_await shake_hands(address, tls);
  opening_ = false;
  if (closed_ && !error) error = asio::error::operation_aborted;
  co_return error;
}

// A unix socket connects at once or, while the worker's backlog is full, not yet.
asio::awaitable<error_code> WorkerConnection::open_unix(const WorkerAddress& address) {
  error_code error;
  socket_.open(asio::generic::stream_protocol(AF_UNIX, 0), error);
  if (!error) socket_.native_non_blocking(true, error);
  if (error) co_return error;
  family_ = AF_UNIX;
  const asio::local::stream_protocol::endpoint endpoint(address.host);
  while (::connect(socket_.native_handle(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    error = last_error();
    if (errno != EAGAIN) co_return error;
    asio::steady_timer pause(socket_.get_executor(), kBacklogPause);
    co_await pause.async_wait(redirect_error(use_awaitable, error));
    if (closed_) co_return error_code(asio::error::timed_out);
  }
  co_return error_code();
}

asio::awaitable<error_code> WorkerConnection::open_tcp(const WorkerAddress& address) {
  error_code error;
  std::vector<tcp::endpoint> endpoints;
  const auto literal = asio::ip::make_address(address.host, error);
  if (!error) {
    endpoints.emplace_back(literal, address.port);
  } else {
    tcp::resolver resolver(socket_.get_executor());
    const std::string port = std::to_string(address.port);
    const auto found = co_await resolver.async_resolve(address.host, port, redirect_error(use_awaitable, error));
    if (error) co_return error;
    for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  }
  error = asio::error::host_not_found;
  for (const tcp::endpoint& endpoint : endpoints) {
    if (closed_) co_return error_code(asio::error::timed_out);
    error_code ignored;
    socket_.close(ignored);
    family_ = endpoint.protocol().family();
    const asio::generic::stream_protocol::endpoint generic = endpoint;
    co_await socket_.async_connect(generic, redirect_error(use_awaitable, error));
    if (!error) break;
  }
  error_code ignored;
  if (error) co_return error;
  socket_.set_option(tcp::no_delay(true), ignored);
  notice_silence(socket_.native_handle());
  co_return error;
}

asio::awaitable<error_code> WorkerConnection::shake_hands(const WorkerAddress& address, SSL_CTX* tls) {
  error_code error;
  socket_.native_non_blocking(true, error);
  if (error) co_return error;
  tls_.reset(SSL_new(tls));
  if (!tls_ || SSL_set_fd(tls_.get(), socket_.native_handle()) != 1) co_return broken();
  // Whoever has the key is who was meant, by whatever name.
  if (!address.pin.empty()) SSL_set_verify(tls_.get(), SSL_VERIFY_NONE, nullptr);
  error_code not_literal;
  asio::ip::make_address(address.host, not_literal);
  if (not_literal) {
    SSL_set_tlsext_host_name(tls_.get(), address.host.c_str());
    SSL_set1_host(tls_.get(), address.host.c_str());
  } else {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), address.host.c_str());
  }
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(tls_.get());
    if (result == 1) {
      const bool trusted = address.pin.empty() || pin_of(tls_.get()) == address.pin;
      co_return trusted ? error_code() : error_code(asio::error::no_permission);
    }
    error = co_await wait_for_tls(result);
    if (error) co_return error;
  }
}

asio::awaitable<error_code> WorkerConnection::wait_for_tls(int result) {
  const int wanted = SSL_get_error(tls_.get(), result);
  ERR_clear_error();
  error_code error;
  if (wanted == SSL_ERROR_WANT_READ) {
    co_await socket_.async_wait(asio::socket_base::wait_read, redirect_error(use_awaitable, error));
  } else if (wanted == SSL_ERROR_WANT_WRITE) {
    co_await socket_.async_wait(asio::socket_base::wait_write, redirect_error(use_awaitable, error));
  } else if (wanted == SSL_ERROR_ZERO_RETURN) {
    error = asio::error::eof;
  } else {
    error = broken();
  }
  if (closed_) error = asio::error::operation_aborted;
  co_return error;
}

asio::awaitable<error_code> WorkerConnection::write(std::span<const std::string_view> parts) {
  error_code error;
  if (tls_) {
    for (const std::string_view part : parts) {
      error = co_await write_tls(part);
      if (error) break;
    }
    co_return error;
  }
  std::vector<asio::const_buffer> buffers;
  for (const std::string_view part : parts) buffers.emplace_back(part.data(), part.size());
  co_await asio::async_write(socket_, buffers, redirect_error(use_awaitable, error));
  co_return error;
}

asio::awaitable<error_code> WorkerConnection::write_tls(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &written);
    if (result == 1) {
      bytes.remove_prefix(written);
      continue;
    }
    const error_code error = co_await wait_for_tls(result);
    if (error) co_return error;
  }
  co_return error_code();
}

asio::awaitable<size_t> WorkerConnection::read_some(char* target, size_t size, error_code& error) {
  if (!tls_)
    co_return co_await socket_.async_read_some(asio::buffer(target, size), redirect_error(use_awaitable, error));
  for (;;) {
    size_t read = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(tls_.get(), target, size, &read);
    if (result == 1) {
      error = {};
      co_return read;
    }
    error = co_await wait_for_tls(result);
    if (error) co_return 0;
  }
}

}  // namespace quern::door
