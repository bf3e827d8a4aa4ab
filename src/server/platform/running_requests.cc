#include "server/platform/running_requests.h"

#include <algorithm>

#include "base/status.h"
#include "server/offload.h"

namespace quern::platform {

using http::asio::awaitable;

namespace {

constexpr size_t kReadHereMax = 64 * 1024;  // a larger body would hold an I/O thread for too long

ApiError aborted_error() {
  return {.status = 499, .message = "the request was aborted", .type = "cancelled", .code = "request_aborted"};
}

// Ids by which a client may name the request later.
std::vector<std::string> ids_of(const http::Request& request) {
  std::vector<std::string> ids = {request.id};
  if (request.body.find("\"request_id\"") == std::string::npos) return ids;
  const auto body = parse_json(request.body, "request body");
  if (!body || !body->is_object()) return ids;
  const auto id = body->find("request_id");
  if (id == body->end() || !id->is_string()) return ids;
  if (*id != request.id) ids.push_back(id->get<std::string>());
  return ids;
}

}  // namespace

// What the route writes goes to the connection until the request is aborted.
class RunningRequests::AbortableReply final : public http::Reply {
 public:
  AbortableReply(http::Reply& inner, std::shared_ptr<Handle> handle) : inner_(inner), handle_(std::move(handle)) {
    set_span(inner.span());
  }

  awaitable<void> send(int status, std::string_view content_type, std::string body, http::Headers headers) override {
    return inner_.send(status, content_type, std::move(body), std::move(headers));
  }
  awaitable<void> start_stream(int status, std::string_view content_type, http::Headers headers) override {
    streaming_ = true;
    events_ = content_type.starts_with("text/event-stream");
    return inner_.start_stream(status, content_type, std::move(headers));
  }
  awaitable<bool> write(std::string_view bytes) override {
    if (handle_->aborted) co_return false;
    co_return co_await inner_.write(bytes);
  }
  awaitable<void> end_stream() override {
    streaming_ = false;
    return inner_.end_stream();
  }
  // An aborted stream is not broken: finish() says how it ended.
  void break_off() override {
    if (!handle_->aborted) inner_.break_off();
  }
  void hold() override { inner_.hold(); }
  awaitable<bool> release() override {
    const bool there = co_await inner_.release();
    co_return there && !handle_->aborted;
  }
  void set_header(std::string name, std::string value) override {
    inner_.set_header(std::move(name), std::move(value));
  }
  std::shared_ptr<http::Signal> signal() override { return inner_.signal(); }
  bool client_gone() const override { return handle_->aborted || inner_.client_gone(); }
  bool out_of_time() const override { return inner_.out_of_time(); }
  int status() const override { return inner_.status(); }
  int64_t bytes_sent() const override { return inner_.bytes_sent(); }
  void count_tokens(int64_t count) override { inner_.count_tokens(count); }

  // Tells the client of the abort, where nothing has told it an end yet.
  awaitable<void> finish(const Route& route) {
    if (!handle_->aborted || inner_.client_gone()) co_return;
    const ApiError error = aborted_error();
    if (inner_.status() == 0) co_return co_await send_error(inner_, error, route.error_body);
    if (!streaming_) co_return;
    // The event under way may have lost its end.
    const std::string text = (events_ ? "\n\n" : "") + route.error_event(error);
    co_await inner_.write(text);
    co_await inner_.end_stream();
  }

 private:
  http::Reply& inner_;
  const std::shared_ptr<Handle> handle_;
  bool streaming_ = false;
  bool events_ = false;
};

// In the table while it lives.
class RunningRequests::Ticket {
 public:
  Ticket(RunningRequests& table, std::vector<std::string> ids, std::shared_ptr<Handle> handle)
      : table_(table), ids_(std::move(ids)), handle_(std::move(handle)) {
    table_.add(ids_, handle_);
  }
  ~Ticket() { table_.remove(ids_, handle_); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  RunningRequests& table_;
  const std::vector<std::string> ids_;
  const std::shared_ptr<Handle> handle_;
};

awaitable<void> RunningRequests::run(const http::Request& request, http::Reply& reply, const Route& route,
                                     const Work& work) {
  const auto handle = std::make_shared<Handle>();
  handle->signal = reply.signal();
  std::vector<std::string> ids;
  if (request.body.size() > kReadHereMax) {
    const std::function<std::vector<std::string>()> read = [&] { return ids_of(request); };
    ids = co_await offload(read);
  } else {
    ids = ids_of(request);
  }
  const Ticket ticket(*this, std::move(ids), handle);
  AbortableReply abortable(reply, handle);
  if (!handle->aborted) co_await work(abortable);
  co_await abortable.finish(route);
}

void RunningRequests::add(const std::vector<std::string>& ids, const std::shared_ptr<Handle>& handle) {
  const std::lock_guard lock(mutex_);
  for (const std::string& id : ids) {
    running_.emplace(id, handle);
    const auto blocked = blocked_.find(id);
    if (blocked != blocked_.end() && Clock::now() < blocked->second) handle->aborted = true;
  }
}

void RunningRequests::remove(const std::vector<std::string>& ids, const std::shared_ptr<Handle>& handle) {
  const std::lock_guard lock(mutex_);
  for (const std::string& id : ids) {
    auto [it, end] = running_.equal_range(id);
    while (it != end && it->second != handle) ++it;
    if (it != end) running_.erase(it);
  }
}

bool RunningRequests::abort(const std::string& id, std::chrono::seconds block) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  std::erase_if(blocked_, [now](const auto& entry) { return entry.second <= now; });
  if (block.count() > 0 && blocked_.size() < kBlockedIdsMax) blocked_[id] = now + std::min(block, kBlockMax);
  const auto [begin, end] = running_.equal_range(id);
  for (auto it = begin; it != end; ++it) {
    it->second->aborted = true;
    it->second->signal->notify();
  }
  return begin != end;
}

size_t RunningRequests::num_running() const {
  const std::lock_guard lock(mutex_);
  return running_.size();
}

}  // namespace quern::platform
