// What a route sees of HTTP: one request, whole, and a reply that is sent at once or streamed.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern {
class RequestSpan;
}
namespace quern::people {
struct Principal;
}

namespace quern::http {

namespace asio = boost::asio;

using Headers = std::vector<std::pair<std::string, std::string>>;

// Why a request could not be read. What is known of the request by then stands in its other fields.
struct BrokenRequest {
  int status = 400;  // 400, 408, 413 or 431
  std::string message;
};

struct Request {
  std::string method;  // "GET"; HEAD comes as GET, its reply loses the body
  std::string path;    // percent-decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;
  Headers headers;  // names in lower case
  std::string body;
  std::string id;                   // from X-Request-Id when it is sane, else made here; sent back
  std::string peer;                 // address of the client, of the one behind trusted proxies; empty: unknown
  std::vector<std::string> params;  // what stands in the path for the {…} of its route
  bool draining = false;            // the server stops: new work is to be refused
  bool background = false;          // a batch's: goes behind what clients wait for
  std::shared_ptr<const people::Principal> principal;  // who asks; null: anybody, who may everything
  // The handler must send this error, in the shape that clients of the path expect, and do nothing else; the connection
  // closes behind it.
  std::optional<BrokenRequest> broken;

  std::optional<std::string_view> header(std::string_view lower_case_name) const;
  std::optional<std::string_view> query_value(std::string_view name) const;
};

// Wakes one coroutine from any thread. Kept by shared_ptr: the one that notifies may outlive the one that waits.
class Signal : public std::enable_shared_from_this<Signal> {
 public:
  explicit Signal(const asio::any_io_executor& executor) : timer_(executor) {}
  void notify();                 // any thread; not lost when nobody waits yet
  asio::awaitable<void> wait();  // on the executor's strand; returns at once after an unseen notify()
  // Called on the strand at each notify(), for one who waits for something else; empty: nobody. On the strand.
  void set_hook(std::function<void()> hook) { hook_ = std::move(hook); }

 private:
  asio::steady_timer timer_;
  std::function<void()> hook_;
  bool set_ = false;
};

// The way back. Exactly one of send() or start_stream() is called. All on the connection's strand.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual asio::awaitable<void> send(int status, std::string_view content_type, std::string body,
                                     Headers headers = {}) = 0;

  virtual asio::awaitable<void> start_stream(int status, std::string_view content_type, Headers headers = {}) = 0;
  // Waits until the bytes are with the kernel: a slow reader slows its own route down, nobody else. false: the client
  // is gone.
  virtual asio::awaitable<bool> write(std::string_view bytes) = 0;
  virtual asio::awaitable<void> end_stream() = 0;
  // Ends a stream so that the client sees that it is not whole.
  virtual void break_off() = 0;
  // From hold() to release() what is written may be kept back, a bounded part of it, to go out in one piece.
  virtual void hold() {}
  virtual asio::awaitable<bool> release() { co_return !client_gone(); }

  // For whatever reply follows, errors included.
  virtual void set_header(std::string name, std::string value) = 0;

  // A signal on this connection's strand; also notified when the client disconnects and when time is up.
  virtual std::shared_ptr<Signal> signal() = 0;
  virtual bool client_gone() const = 0;
  virtual bool out_of_time() const = 0;  // the server stops and has waited long enough: tell the client and end

  virtual int status() const = 0;  // 0: nothing was sent yet
  virtual int64_t bytes_sent() const = 0;

  // Where to tell a trace of this request what is learnt on the way; null when nobody traces it.
  RequestSpan* span() const { return span_; }
  void set_span(RequestSpan* span) { span_ = span; }

  // Tokens this request has cost, read and written, as they come: what quotas are about. Routes count, whoever asks.
  virtual void count_tokens(int64_t count) { tokens_ += count; }
  int64_t tokens() const { return tokens_; }
  void start_counting() { tokens_ = 0; }

 private:
  RequestSpan* span_ = nullptr;
  int64_t tokens_ = 0;
};

using Handler = std::function<asio::awaitable<void>(Request&, Reply&)>;

}  // namespace quern::http
