// One HTTP/1.1 request to a worker and its answer (RFC 9112), piece by piece as it comes. On one strand throughout.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/door/answer_parser.h"
#include "server/door/connection_pool.h"

namespace quern::door {

struct WorkerRequest {
  std::string method;
  std::string target;  // path and query, encoded
  http::Headers headers;
  std::vector<std::string_view> body;  // in pieces, which must live as long as the call; sent with Content-Length
};

enum class CallEnd : uint8_t {
  kNone,     // it goes on
  kWhole,    // the answer ended as HTTP says it ends
  kRefused,  // no connection
  kBroken,   // the connection broke, or what came is no HTTP
  kStopped,  // stop() was called
};

class WorkerCall {
 public:
  WorkerCall(ConnectionPool& pool, WorkerAddress address) : pool_(pool), address_(std::move(address)) {}
  // Gives the connection back when it can serve another request, else closes it: the worker sees its client leave.
  ~WorkerCall();
  WorkerCall(const WorkerCall&) = delete;

  // Sends the request and waits for the head of its answer. A kept connection that turns out to be closed is replaced
  // by a fresh one, once. true: head() is there. false: see end().
  asio::awaitable<bool> begin(const WorkerRequest& request);
  const AnswerHead& head() const { return parser_->head; }
  // Appends to `piece` what has come of the body, at most some 16 KiB; waits when that is nothing. false: see end();
  // `piece` may have grown.
  asio::awaitable<bool> read(std::string& piece);
  CallEnd end() const { return end_; }
  const std::string& reason() const { return reason_; }  // of kRefused and kBroken, for the log

  void stop();  // whatever waits ends soon, with kStopped

 private:
  asio::awaitable<bool> connect(const asio::any_io_executor& strand, bool may_be_kept);
  asio::awaitable<bool> send(const WorkerRequest& request);
  asio::awaitable<bool> read_head();
  asio::awaitable<bool> read_more();  // from the socket into the parser
  bool parse();                       // false: no HTTP
  bool fail(CallEnd end, std::string reason);

  ConnectionPool& pool_;
  const WorkerAddress address_;
  std::shared_ptr<WorkerConnection> connection_;
  std::optional<AnswerParser> parser_;
  std::vector<char> buffer_;  // what was read lies in [parsed_, filled_)
  size_t parsed_ = 0, filled_ = 0;
  bool was_kept_ = false;
  bool any_byte_ = false;  // of an answer
  bool stopped_ = false;
  CallEnd end_ = CallEnd::kNone;
  std::string reason_;
};

}  // namespace quern::door
