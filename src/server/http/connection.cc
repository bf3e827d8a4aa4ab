#include "server/http/connection.h"

#include <poll.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstring>
#include <type_traits>
#include <utility>

#include "fmt/format.h"
#include "server/http/parse.h"

namespace quern::http {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = beast::http::request_parser<beast::http::string_body>;
using PlainStream = beast::basic_stream<asio::generic::stream_protocol, asio::any_io_executor>;
using TlsStream = asio::ssl::stream<PlainStream>;

constexpr std::chrono::milliseconds kGreetingTime{500};  // while stopping, a new connection may still say its request
constexpr std::chrono::milliseconds kPeekPause{50};
constexpr size_t kHeldMax = 32 * 1024;  // bytes that hold() keeps back

std::string peer_of(const Socket& socket) {
  error_code error;
  const auto generic = socket.remote_endpoint(error);
  if (error || (generic.protocol().family() != AF_INET && generic.protocol().family() != AF_INET6)) return "";
  asio::ip::tcp::endpoint endpoint;
  if (generic.size() > endpoint.capacity()) return "";
  std::memcpy(endpoint.data(), generic.data(), generic.size());
  return endpoint.address().to_string();
}

template <class Stream>
class ConnectionImpl final : public Connection,
                             public Reply,
                             public std::enable_shared_from_this<ConnectionImpl<Stream>> {
 public:
  template <class... Arguments>
  ConnectionImpl(Lobby& lobby, Arguments&&... arguments)
      : stream_(std::forward<Arguments>(arguments)...),
        lobby_(lobby),
        signal_(std::make_shared<Signal>(stream_.get_executor())),
        peer_(peer_of(plain().socket())),
        buffer_(kHeaderBytesLimit) {}

  asio::awaitable<void> run() override;
  bool is_busy() const override { return busy_.load(); }
  void close_if_idle() override;
  void expire() override;
  void close_now() override;

  asio::awaitable<void> send(int status, std::string_view content_type, std::string body, Headers headers) override;
  asio::awaitable<void> start_stream(int status, std::string_view content_type, Headers headers) override;
  asio::awaitable<bool> write(std::string_view bytes) override;
  void hold() override { holding_ = true; }
  asio::awaitable<bool> release() override;
  asio::awaitable<void> end_stream() override;
  void break_off() override;
  void set_header(std::string name, std::string value) override {
    headers_.emplace_back(std::move(name), std::move(value));
  }
  std::shared_ptr<Signal> signal() override { return signal_; }
  bool client_gone() const override { return gone_; }
  bool out_of_time() const override { return expired_; }
  int status() const override { return status_; }
  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  PlainStream& plain() { return beast::get_lowest_layer(stream_); }
  asio::awaitable<bool> shake_hands();
  asio::awaitable<bool> read_request();
  asio::awaitable<error_code> read_message(Parser& parser);
  asio::awaitable<void> refuse(error_code error, Parser& parser);
  asio::awaitable<void> watch_for_disconnect();
  asio::awaitable<bool> write_raw(std::string_view bytes);
  std::string head(int status, std::string_view content_type, const Headers& headers) const;

  Stream stream_;
  Lobby& lobby_;
  std::shared_ptr<Signal> signal_;
  const std::string peer_;
  const Clock::time_point opened_ = Clock::now();
  beast::flat_buffer buffer_;
  Request request_;
  Headers headers_;  // set_header() of this reply
  std::atomic<bool> busy_ = false;
  int status_ = 0;
  int64_t bytes_sent_ = 0;
  int64_t num_served_ = 0;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool streaming_ = false;
  bool holding_ = false;
  std::string held_;  // chunks that go out with the next write
  bool gone_ = false;
  bool expired_ = false;
  bool watching_ = false;
};

template <class Stream>
void ConnectionImpl<Stream>::close_if_idle() {
  asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
    const bool is_new = self->num_served_ == 0 && Clock::now() - self->opened_ < kGreetingTime;
    if (!self->busy_ && !is_new) self->plain().close();
  });
}

template <class Stream>
void ConnectionImpl<Stream>::expire() {
  asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
    self->expired_ = true;
    self->signal_->notify();
  });
}

template <class Stream>
void ConnectionImpl<Stream>::close_now() {
  asio::post(stream_.get_executor(), [self = this->shared_from_this()] { self->plain().close(); });
}

template <class Stream>
asio::awaitable<void> ConnectionImpl<Stream>::run() {
  const auto self = this->shared_from_this();
  if (!co_await shake_hands()) co_return;
  while (keep_alive_) {
    const bool read = co_await read_request();
    if (!read) break;
    if (!watching_) asio::co_spawn(stream_.get_executor(), watch_for_disconnect(), asio::detached);
    co_await lobby_.handler()(request_, *this);
    if (streaming_) co_await end_stream();
    if (status_ == 0 || gone_) break;
    ++num_served_;
    busy_ = false;
  }
  error_code ignored;
  plain().socket().shutdown(asio::socket_base::shutdown_both, ignored);
  plain().close();
  busy_ = false;
}

template <class Stream>
asio::awaitable<bool> ConnectionImpl<Stream>::shake_hands() {
  if constexpr (std::is_same_v<Stream, TlsStream>) {
    error_code error;
    plain().expires_after(lobby_.options().read_timeout);
    co_await stream_.async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, error));
    plain().expires_never();
    co_return !error;
  }
  co_return true;
}

// Reads the header, then the body.
template <class Stream>
asio::awaitable<error_code> ConnectionImpl<Stream>::read_message(Parser& parser) {
  error_code error;
  co_await beast::http::async_read_header(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  if (!error && parser.get()[beast::http::field::expect] == "100-continue") {
    const bool written = co_await write_raw("HTTP/1.1 100 Continue\r\n\r\n");
    if (!written) co_return error_code(asio::error::broken_pipe);
    plain().expires_after(lobby_.options().read_timeout);
  }
  if (!error) {
    co_await beast::http::async_read(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  }
  if (error == beast::http::error::buffer_overflow) co_return make_error_code(beast::http::error::header_limit);
  co_return error;
}

template <class Stream>
asio::awaitable<bool> ConnectionImpl<Stream>::read_request() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(lobby_.options().header_bytes_max));
  parser.body_limit(lobby_.options().body_bytes_max);
  error_code error;
  // The first byte may take the idle time; from then on the whole request has read_timeout.
  if (buffer_.size() == 0) {
    plain().expires_after(lobby_.options().idle_timeout);
    const size_t n =
        co_await stream_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
    buffer_.commit(n);
  }
  busy_ = true;
  status_ = 0;
  bytes_sent_ = 0;
  holding_ = false;
  headers_.clear();
  plain().expires_after(lobby_.options().read_timeout);
  error = co_await read_message(parser);
  plain().expires_never();
  if (error) {
    co_await refuse(error, parser);
    co_return false;
  }
  keep_alive_ = parser.get().keep_alive();
  head_only_ = parser.get().method() == beast::http::verb::head;
  request_ = to_request(parser.release());
  if (head_only_) request_.method = "GET";
  request_.peer = peer_;
  request_.draining = lobby_.stopping();
  co_return true;
}

// What the parser refused goes to the handler: it knows in which shape clients of the path read errors.
template <class Stream>
asio::awaitable<void> ConnectionImpl<Stream>::refuse(error_code error, Parser& parser) {
  BrokenRequest broken{.status = 400, .message = "malformed HTTP request"};
  if (error == beast::http::error::body_limit) {
    broken = {.status = 413, .message = "the request body is too large"};
  } else if (error == beast::http::error::header_limit) {
    broken = {.status = 431, .message = "the request headers are too large"};
  } else if (error == beast::error::timeout) {
    broken = {.status = 408, .message = "the request did not arrive in time"};
  } else if (error.category() != make_error_code(beast::http::error::bad_method).category()) {
    co_return;  // the connection itself broke: nobody to tell
  }
  keep_alive_ = false;
  head_only_ = false;
  auto& message = parser.get();
  // Beast looks at nothing before the header is whole; until then its first line lies in the buffer.
  if (message.target().empty()) {
    const auto bytes = buffer_.data();
    const std::string_view target = target_in({static_cast<const char*>(bytes.data()), bytes.size()});
    message.target({target.data(), target.size()});
  }
  message.body().clear();
  request_ = to_request(std::move(message));
  request_.peer = peer_;
  request_.broken = std::move(broken);
  co_await lobby_.handler()(request_, *this);
  if (streaming_) co_await end_stream();
}

// Readable while nothing is expected means: closed, or the next request came early. Bytes are left where they are; the
// peer's FIN is seen behind them.
template <class Stream>
asio::awaitable<void> ConnectionImpl<Stream>::watch_for_disconnect() {
  const auto self = this->shared_from_this();
  watching_ = true;
  asio::steady_timer pause(stream_.get_executor());
  while (busy_) {
    error_code error;
    co_await plain().socket().async_wait(asio::socket_base::wait_read,
                                         asio::redirect_error(asio::use_awaitable, error));
    if (error || !busy_) break;
    pollfd state{};
    state.fd = plain().socket().native_handle();
    state.events = POLLIN | POLLRDHUP;
    ::poll(&state, 1, 0);
    if ((state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      gone_ = true;
      signal_->notify();
      break;
    }
    // The bytes that woke us may have been this request's, read meanwhile; if not, they stay and would wake us again.
    if ((state.revents & POLLIN) == 0) continue;
    pause.expires_after(kPeekPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
  watching_ = false;
}

template <class Stream>
std::string ConnectionImpl<Stream>::head(int status, std::string_view content_type, const Headers& headers) const {
  const auto reason = beast::http::obsolete_reason(static_cast<beast::http::status>(status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", status, std::string_view(reason.data(), reason.size()));
  if (!content_type.empty()) text += fmt::format("Content-Type: {}\r\n", content_type);
  if (!request_.id.empty()) text += fmt::format("X-Request-Id: {}\r\n", request_.id);
  text += keep_alive_ && !lobby_.stopping() ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  for (const auto& [name, value] : headers_) text += fmt::format("{}: {}\r\n", name, value);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text;
}

template <class Stream>
asio::awaitable<void> ConnectionImpl<Stream>::send(int status, std::string_view content_type, std::string body,
                                                   Headers headers) {
  status_ = status;
  if (lobby_.stopping()) keep_alive_ = false;
  std::string text = head(status, content_type, headers);
  if (status != 204) text += fmt::format("Content-Length: {}\r\n", body.size());
  text += "\r\n";
  if (!head_only_) text += body;
  co_await write_raw(text);
}

template <class Stream>
asio::awaitable<void> ConnectionImpl<Stream>::start_stream(int status, std::string_view content_type, Headers headers) {
  status_ = status;
  streaming_ = true;
  if (lobby_.stopping()) keep_alive_ = false;
  co_await write_raw(head(status, content_type, headers) +
                     "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n\r\n");
}

template <class Stream>
asio::awaitable<bool> ConnectionImpl<Stream>::write(std::string_view bytes) {
  if (bytes.empty() || head_only_) co_return !gone_;
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  if (!holding_ || held_.size() + chunk.size() > kHeldMax) co_return co_await write_raw(chunk);
  held_ += chunk;
  co_return !gone_;
}

template <class Stream>
asio::awaitable<bool> ConnectionImpl<Stream>::release() {
  holding_ = false;
  if (held_.empty()) co_return !gone_;
  co_return co_await write_raw("");
}

template <class Stream>
asio::awaitable<void> ConnectionImpl<Stream>::end_stream() {
  if (!streaming_) co_return;
  streaming_ = false;
  if (!head_only_) co_await write_raw("0\r\n\r\n");
  if (lobby_.stopping()) keep_alive_ = false;
}

template <class Stream>
void ConnectionImpl<Stream>::break_off() {
  streaming_ = false;
  gone_ = true;  // run() closes the connection: the last chunk never comes
}

template <class Stream>
asio::awaitable<bool> ConnectionImpl<Stream>::write_raw(std::string_view bytes) {
  std::string held = std::exchange(held_, {});
  if (gone_) co_return false;
  if (!held.empty()) bytes = held += bytes;
  error_code error;
  plain().expires_after(lobby_.options().write_timeout);
  co_await asio::async_write(stream_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  plain().expires_never();
  if (error) gone_ = true;
  bytes_sent_ += static_cast<int64_t>(bytes.size());
  co_return !error;
}

}  // namespace

std::shared_ptr<Connection> make_connection(Socket socket, asio::ssl::context* tls, Lobby& lobby) {
  if (tls != nullptr) return std::make_shared<ConnectionImpl<TlsStream>>(lobby, std::move(socket), *tls);
  return std::make_shared<ConnectionImpl<PlainStream>>(lobby, std::move(socket));
}

}  // namespace quern::http
