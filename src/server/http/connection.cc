#include "server/http/connection.h"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <random>

#include "fmt/format.h"

namespace quern::http {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;
using Parser = beast::http::request_parser<beast::http::string_body>;

std::string make_id() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("{:016x}", generator());
}

// A request id from outside goes into headers and logs: letters, digits and -_. only, and not endless.
bool is_sane_id(std::string_view id) {
  if (id.empty() || id.size() > 128) return false;
  for (const char c : id) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view part = text.substr(0, end);
    const size_t equals = std::min(part.find('='), part.size());
    pairs.emplace_back(percent_decode(part.substr(0, equals), true),
                       percent_decode(part.substr(std::min(equals + 1, part.size())), true));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pairs;
}

Request to_request(Parser::value_type&& message) {
  Request request;
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const size_t question = std::min(target.find('?'), target.size());
  request.path = percent_decode(target.substr(0, question), false);
  request.query = parse_query(target.substr(std::min(question + 1, target.size())));
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  const auto id = request.header("x-request-id");
  request.id = id && is_sane_id(*id) ? std::string(*id) : make_id();
  return request;
}

class ConnectionImpl final : public Connection, public Reply, public std::enable_shared_from_this<ConnectionImpl> {
 public:
  ConnectionImpl(asio::ip::tcp::socket socket, Lobby& lobby)
      : stream_(std::move(socket)), lobby_(lobby), signal_(std::make_shared<Signal>(stream_.get_executor())) {}

  asio::awaitable<void> run() override;
  void close_if_idle() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      if (self->idle_) self->stream_.close();
    });
  }
  void close_now() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->stream_.close(); });
  }

  asio::awaitable<void> send(int status, std::string_view content_type, std::string body, Headers headers) override;
  asio::awaitable<void> start_stream(int status, std::string_view content_type, Headers headers) override;
  asio::awaitable<bool> write(std::string_view bytes) override;
  asio::awaitable<void> end_stream() override;
  std::shared_ptr<Signal> signal() override { return signal_; }
  bool client_gone() const override { return gone_; }

 private:
  asio::awaitable<bool> read_request();
  asio::awaitable<void> refuse(error_code error);
  asio::awaitable<void> watch_for_disconnect();
  asio::awaitable<bool> write_raw(std::string_view bytes);
  std::string head(int status, std::string_view content_type, const Headers& headers) const;

  beast::tcp_stream stream_;
  Lobby& lobby_;
  std::shared_ptr<Signal> signal_;
  beast::flat_buffer buffer_;
  Request request_;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool replied_ = false;
  bool streaming_ = false;
  bool gone_ = false;
  bool idle_ = true;  // between requests
  bool watching_ = false;
};

asio::awaitable<void> ConnectionImpl::run() {
  const auto self = shared_from_this();
  while (keep_alive_ && !lobby_.stopping()) {
    idle_ = true;
    if (!co_await read_request()) break;
    idle_ = false;
    replied_ = false;
    if (!watching_) asio::co_spawn(stream_.get_executor(), watch_for_disconnect(), asio::detached);
    co_await lobby_.handler()(request_, *this);
    if (streaming_) co_await end_stream();
    if (!replied_ || gone_) break;
  }
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

asio::awaitable<bool> ConnectionImpl::read_request() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(lobby_.options().header_bytes_max));
  parser.body_limit(lobby_.options().body_bytes_max);
  error_code error;
  // The first byte may take the idle time; from then on the whole request has read_timeout.
  if (buffer_.size() == 0) {
    stream_.expires_after(lobby_.options().idle_timeout);
    const size_t n =
        co_await stream_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;
    buffer_.commit(n);
  }
  idle_ = false;
  stream_.expires_after(lobby_.options().read_timeout);
  co_await beast::http::async_read_header(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  if (!error && parser.get()[beast::http::field::expect] == "100-continue") {
    if (!co_await write_raw("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    stream_.expires_after(lobby_.options().read_timeout);
  }
  if (!error) {
    co_await beast::http::async_read(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  }
  stream_.expires_never();
  if (error) {
    co_await refuse(error);
    co_return false;
  }
  keep_alive_ = parser.get().keep_alive();
  head_only_ = parser.get().method() == beast::http::verb::head;
  request_ = to_request(parser.release());
  if (head_only_) request_.method = "GET";
  co_return true;
}

// What the parser refused, in the shape every other error has.
asio::awaitable<void> ConnectionImpl::refuse(error_code error) {
  int status = 400;
  std::string_view text = "malformed HTTP request";
  if (error == beast::http::error::body_limit) {
    status = 413;
    text = "the request body is too large";
  } else if (error == beast::http::error::header_limit) {
    status = 431;
    text = "the request headers are too large";
  } else if (error == beast::error::timeout) {
    status = 408;
    text = "the request did not arrive in time";
  } else if (error.category() != make_error_code(beast::http::error::bad_method).category()) {
    co_return;  // the connection itself broke: nobody to tell
  }
  keep_alive_ = false;
  co_await send(
      status, "application/json",
      fmt::format(
          R"({{"error":{{"message":"{0}","type":"invalid_request_error","param":null,"code":null}},"detail":"{0}"}})",
          text),
      {});
}

// Readable while nothing is expected means: closed, or the next request came early. Bytes are left where they are.
asio::awaitable<void> ConnectionImpl::watch_for_disconnect() {
  const auto self = shared_from_this();
  watching_ = true;
  for (;;) {
    error_code error;
    co_await stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                                         asio::redirect_error(asio::use_awaitable, error));
    if (error || idle_) break;
    char byte = 0;
    const ssize_t n = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    // The bytes that woke us may have been this request's, read meanwhile.
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (n <= 0) {
      gone_ = true;
      signal_->notify();
    }
    break;
  }
  watching_ = false;
}

std::string ConnectionImpl::head(int status, std::string_view content_type, const Headers& headers) const {
  const auto reason = beast::http::obsolete_reason(static_cast<beast::http::status>(status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nX-Request-Id: {}\r\nConnection: {}\r\n", status,
                                 std::string_view(reason.data(), reason.size()), content_type, request_.id,
                                 keep_alive_ && !lobby_.stopping() ? "keep-alive" : "close");
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text;
}

asio::awaitable<void> ConnectionImpl::send(int status, std::string_view content_type, std::string body,
                                           Headers headers) {
  replied_ = true;
  std::string text = head(status, content_type, headers);
  if (status != 204) text += fmt::format("Content-Length: {}\r\n", body.size());
  text += "\r\n";
  if (!head_only_) text += body;
  co_await write_raw(text);
}

asio::awaitable<void> ConnectionImpl::start_stream(int status, std::string_view content_type, Headers headers) {
  replied_ = true;
  streaming_ = true;
  co_await write_raw(head(status, content_type, headers) +
                     "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n\r\n");
}

asio::awaitable<bool> ConnectionImpl::write(std::string_view bytes) {
  if (bytes.empty()) co_return !gone_;
  co_return co_await write_raw(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

asio::awaitable<void> ConnectionImpl::end_stream() {
  if (!streaming_) co_return;
  streaming_ = false;
  co_await write_raw("0\r\n\r\n");
}

asio::awaitable<bool> ConnectionImpl::write_raw(std::string_view bytes) {
  if (gone_) co_return false;
  error_code error;
  stream_.expires_after(lobby_.options().write_timeout);
  co_await asio::async_write(stream_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  stream_.expires_never();
  if (error) gone_ = true;
  co_return !error;
}

}  // namespace

std::shared_ptr<Connection> make_connection(asio::ip::tcp::socket socket, Lobby& lobby) {
  return std::make_shared<ConnectionImpl>(std::move(socket), lobby);
}

}  // namespace quern::http
