#include "server/jobs/line_runner.h"

namespace quern::jobs {
namespace {

using http::asio::awaitable;

class RunningLine final : public LineHandle {
 public:
  explicit RunningLine(std::shared_ptr<DetachedReply> reply) : reply_(std::move(reply)) {}
  void cancel() override { reply_->cancel(); }

 private:
  const std::shared_ptr<DetachedReply> reply_;
};

}  // namespace

std::shared_ptr<LineHandle> run_line(Background& background, const Serve& serve, LineCall call,
                                     std::function<void(LineAnswer)> done) {
  const auto request = std::make_shared<http::Request>();
  request->method = "POST";
  request->path = std::move(call.url);
  request->id = std::move(call.request_id);
  request->body = std::move(call.body);
  request->background = true;
  const auto task = [&serve, request, done = std::move(done)](DetachedReply& reply) -> awaitable<void> {
    try {
      co_await serve(*request, reply);
    } catch (const std::exception&) {
      // No answer.
    }
    const bool given_up = reply.out_of_time() || reply.client_gone();
    LineAnswer answer{.status = given_up ? 0 : reply.status(), .body = reply.body()};
    done(std::move(answer));
  };
  auto reply = background.start(task);
  if (!reply) return nullptr;
  return std::make_shared<RunningLine>(std::move(reply));
}

}  // namespace quern::jobs
