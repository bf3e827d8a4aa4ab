#include "server/door/worker_call.h"

#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstring>

#include "fmt/format.h"
#include "server/http/server.h"

namespace quern::door {
namespace {

constexpr size_t kReadBytes = 16 * 1024;
// A header is at most kHeaderBytesLimit, of which the parser says so itself; a chunk's own line comes in addition.
constexpr size_t kBufferBytesMax = http::kHeaderBytesLimit + kReadBytes;

std::string head_of(const WorkerRequest& request, const std::string& host) {
  size_t length = 0;
  for (const std::string_view part : request.body) length += part.size();
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, host);
  for (const auto& [name, value] : request.headers) {
    text += name;
    text += ": ";
    text += value;
    text += "\r\n";
  }
  if (length > 0 || request.method == "POST") text += fmt::format("Content-Length: {}\r\n", length);
  text += "\r\n";
  return text;
}

}  // namespace

WorkerCall::~WorkerCall() {
  if (!connection_) return;
  const bool reusable = end_ == CallEnd::kWhole && parser_ && parser_->keep_alive() && parsed_ == filled_ && !stopped_;
  if (reusable) {
    pool_.give(address_.text, connection_->release());
  } else {
    connection_->close();
  }
}

bool WorkerCall::fail(CallEnd end, std::string reason) {
  end_ = stopped_ ? CallEnd::kStopped : end;
  reason_ = std::move(reason);
  return false;
}

void WorkerCall::stop() {
  stopped_ = true;
  if (connection_) connection_->close();
}

asio::awaitable<bool> WorkerCall::begin(const WorkerRequest& request) {
  const asio::any_io_executor strand = co_await asio::this_coro::executor;
  for (const bool may_be_kept : {true, false}) {
    end_ = CallEnd::kNone;
    if (stopped_) co_return fail(CallEnd::kStopped, "");
    const bool connected = co_await connect(strand, may_be_kept);
    if (!connected) co_return false;
    // Apart: g++ 12 miscompiles co_await behind && and ||.
    bool answered = co_await send(request);
    if (answered) answered = co_await read_head();
    if (answered) co_return true;
    const bool stale = was_kept_ && !any_byte_ && end_ == CallEnd::kBroken;
    if (!stale) co_return false;
    connection_->close();
    pool_.forget(address_.text);  // of one age: they will be closed too
  }
  co_return false;
}

asio::awaitable<bool> WorkerCall::connect(const asio::any_io_executor& strand, bool may_be_kept) {
  connection_ = std::make_shared<WorkerConnection>(strand);
  parser_.emplace();
  parsed_ = filled_ = 0;
  any_byte_ = was_kept_ = false;
  if (may_be_kept) {
    auto kept = pool_.take(address_.text);
    was_kept_ = kept && !connection_->adopt(std::move(*kept));
    if (was_kept_) co_return true;
  }
  const error_code error = co_await connection_->open(address_, pool_.tls(), pool_.options().connect_timeout);
  if (error) co_return fail(CallEnd::kRefused, fmt::format("no connection: {}", error.message()));
  co_return true;
}

asio::awaitable<bool> WorkerCall::send(const WorkerRequest& request) {
  const std::string head = head_of(request, address_.host_header);
  std::vector<std::string_view> parts;
  parts.reserve(request.body.size() + 1);
  parts.push_back(head);
  parts.insert(parts.end(), request.body.begin(), request.body.end());
  const error_code error = co_await connection_->write(parts);
  // A worker may answer before it has read all, and close: its answer still lies there.
  if (!error || error == asio::error::broken_pipe) co_return true;
  co_return fail(CallEnd::kBroken, fmt::format("sending: {}", error.message()));
}

asio::awaitable<bool> WorkerCall::read_head() {
  for (;;) {
    while (!parser_->is_header_done()) {
      const bool came = co_await read_more();
      if (!came) co_return false;
    }
    const int status = parser_->head.status;
    if (status < 100 || status >= 200) co_return true;
    parser_.emplace();  // 100 Continue and its like: the answer comes behind it
    if (!parse()) co_return false;
  }
}

asio::awaitable<bool> WorkerCall::read(std::string& piece) {
  for (;;) {
    if (!parser_->body.empty()) {
      piece += parser_->body;
      parser_->body.clear();
      co_return true;
    }
    if (parser_->is_done()) {
      end_ = CallEnd::kWhole;
      co_return false;
    }
    if (end_ != CallEnd::kNone) co_return false;
    const bool came = co_await read_more();
    if (!came) co_return false;
  }
}

asio::awaitable<bool> WorkerCall::read_more() {
  if (parsed_ == filled_) parsed_ = filled_ = 0;
  if (buffer_.size() - filled_ < kReadBytes) {
    if (parsed_ > 0) std::memmove(buffer_.data(), buffer_.data() + parsed_, filled_ - parsed_);
    filled_ -= parsed_;
    parsed_ = 0;
    if (filled_ + kReadBytes > kBufferBytesMax) co_return fail(CallEnd::kBroken, "a line of the answer is too long");
    buffer_.resize(filled_ + kReadBytes);
  }
  error_code error;
  const size_t size = co_await connection_->read_some(buffer_.data() + filled_, kReadBytes, error);
  if (stopped_) co_return fail(CallEnd::kStopped, "");
  if (error == asio::error::eof && parser_->is_header_done() && parser_->need_eof()) {
    boost::beast::error_code ended;
    parser_->put_eof(ended);
    if (!ended) co_return true;
  }
  if (error) co_return fail(CallEnd::kBroken, fmt::format("reading: {}", error.message()));
  any_byte_ = true;
  filled_ += size;
  co_return parse();
}

bool WorkerCall::parse() {
  boost::beast::error_code error;
  while (parsed_ < filled_ && !parser_->is_done()) {
    const asio::const_buffer bytes(buffer_.data() + parsed_, filled_ - parsed_);
    const size_t used = parser_->put(bytes, error);
    parsed_ += used;
    if (error == boost::beast::http::error::need_more) return true;
    if (error) return fail(CallEnd::kBroken, fmt::format("the answer is no HTTP: {}", error.message()));
    if (used == 0) break;
  }
  return true;
}

}  // namespace quern::door
