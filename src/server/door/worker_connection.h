// One connection to a worker: a unix socket, TCP, or TLS over TCP with the certificate verified. Bytes only; HTTP is
// worker_call.h's.
//
// A connection belongs to the strand that opened or adopted it. Between requests it is no more than a descriptor
// (KeptConnection), so that any strand may take it up again.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>

#include "server/door/worker_address.h"
#include "server/http/message.h"

namespace quern::door {

namespace asio = boost::asio;
using boost::system::error_code;

struct TlsFree {
  void operator()(SSL* tls) const { SSL_free(tls); }
};
using TlsState = std::unique_ptr<SSL, TlsFree>;

// Closes what it holds. Move only.
class KeptConnection {
 public:
  KeptConnection(int fd, int family, TlsState tls) : fd_(fd), family_(family), tls_(std::move(tls)) {}
  KeptConnection(KeptConnection&& other) noexcept;
  KeptConnection& operator=(KeptConnection&& other) noexcept;
  ~KeptConnection();

  // The other side has closed it, or has said what nobody asked: not to be used again.
  bool is_stale() const;

 private:
  friend class WorkerConnection;
  int fd_ = -1;
  int family_ = 0;
  TlsState tls_;
};

class WorkerConnection : public std::enable_shared_from_this<WorkerConnection> {
 public:
  explicit WorkerConnection(const asio::any_io_executor& strand) : socket_(strand) {}

  // `tls` is of an https address only and must outlive the connection. Within `timeout`, name look-up and handshake
  // included.
  asio::awaitable<error_code> open(const WorkerAddress& address, SSL_CTX* tls, std::chrono::milliseconds timeout);
  error_code adopt(KeptConnection kept);
  KeptConnection release();  // only while nothing waits

  asio::awaitable<error_code> write(std::span<const std::string_view> parts);
  // At least one byte, or an error; the end of the stream is asio::error::eof.
  asio::awaitable<size_t> read_some(char* target, size_t size, error_code& error);
  // What waits ends with operation_aborted. On the strand.
  void close();

 private:
  asio::awaitable<error_code> open_unix(const WorkerAddress& address);
  asio::awaitable<error_code> open_tcp(const WorkerAddress& address);
  asio::awaitable<error_code> shake_hands(const WorkerAddress& address, SSL_CTX* tls);
  asio::awaitable<error_code> write_tls(std::string_view bytes);
  // Waits until the socket can do what TLS wants next; an error when it can do nothing any more.
  asio::awaitable<error_code> wait_for_tls(int result);

  asio::generic::stream_protocol::socket socket_;
  int family_ = 0;
  TlsState tls_;
  bool opening_ = false;
  bool closed_ = false;
};

}  // namespace quern::door
