#include "server/xxljob/executor.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "base/status.h"
#include "platform/http_client.h"
#include "server/offload.h"
#include "server/route.h"
#include "server/xxljob/handlers.h"

namespace quern::xxljob {
namespace {

using http::asio::awaitable;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds kRegisterInterval{30};
constexpr seconds kRegisterAgain{5};  // when no admin answered
constexpr milliseconds kLookInterval{500};
constexpr int64_t kEndingsAtOnce = 100;
constexpr int64_t kWaitingMax = 100;  // of one of the admin's jobs
constexpr int64_t kLogLinesAtOnce = 1000;
constexpr int64_t kAdminSecondsMax = 10;
constexpr size_t kAnswerMax = 64 * 1024;
constexpr size_t kBodyMax = 1u << 20;

class RunningExecutor final : public Executor {
 public:
  RunningExecutor(Settings settings, Jobs& jobs, Fleet* fleet, const Log& log)
      : settings_(std::move(settings)), handlers_{.jobs = jobs, .fleet = fleet}, log_(log) {}
  ~RunningExecutor() override { stop(); }

  Status begin() {
    QUERN_ASSIGN(store_, RunStore::open(settings_.runs));
    http::ServerOptions options;
    options.host = settings_.host;
    options.port = settings_.port;
    options.threads = 1;
    options.connections_max = 64;
    options.body_bytes_max = kBodyMax;
    options.drain_timeout = seconds(2);
    QUERN_ASSIGN(server_, http::Server::start(options, [this](http::Request& request, http::Reply& reply) {
                   return answer(request, reply);
                 }));
    address_ = settings_.address.empty() ? server_->address() : settings_.address;
    if (!address_.ends_with('/')) address_ += '/';
    looking_ = std::thread([this] { look_after_runs(); });
    reporting_ = std::thread([this] { report(); });
    return {};
  }

  std::string address() const override { return address_; }

  void stop() override {
    if (stopping_.exchange(true)) return;
    wake();
    if (looking_.joinable()) looking_.join();
    if (reporting_.joinable()) reporting_.join();
    if (!server_) return;
    server_->stop();
    server_->join();
  }

 private:
  // The admin's questions.
  awaitable<void> answer(http::Request& request, http::Reply& reply) {
    const std::function<std::string()> work = [&] { return answer_text(request); };
    std::string text = co_await offload(work);
    co_await reply.send(200, "application/json;charset=UTF-8", std::move(text));
  }

  std::string answer_text(const http::Request& request) {
    if (request.broken) return reply(kFailed, request.broken->message);
    if (!token_fits(request)) return reply(kFailed, "The access token is wrong.");
    if (request.method != "POST") return reply(kFailed, "invalid request, HttpMethod not support.");
    if (request.path == "/beat") return reply(kDone, "");
    const std::lock_guard lock(deciding_);
    const auto answered = request.path == "/idleBeat" ? idle_beat(request.body)
                          : request.path == "/run"    ? run(request.body)
                          : request.path == "/kill"   ? kill(request.body)
                          : request.path == "/log"    ? show_log(request.body)
                                                      : not_found("invalid request, uri-mapping not found.");
    return answered ? *answered : reply(kFailed, answered.error().message);
  }

  bool token_fits(const http::Request& request) const {
    if (settings_.token.empty()) return true;
    const std::string_view given = request.header("xxl-job-access-token").value_or("");
    // The time tells the length alone.
    return given.size() == settings_.token.size() &&
           CRYPTO_memcmp(given.data(), settings_.token.data(), given.size()) == 0;
  }

  Result<std::string> idle_beat(const std::string& body) {
    QUERN_ASSIGN(const int64_t job_id, parse_job_id(body));
    QUERN_ASSIGN(const auto runs, runs_of(job_id));
    if (runs.empty()) return reply(kDone, "");
    return reply(kFailed, "job thread is running or has trigger queue.");
  }

  Result<std::string> run(const std::string& body) {
    QUERN_ASSIGN(const Trigger trigger, parse_trigger(body));
    if (!Handlers::knows(trigger.handler)) {
      return not_found(fmt::format("job handler [{}] not found.", trigger.handler));
    }
    QUERN_ASSIGN(const auto others, runs_of(trigger.job_id));
    if (!others.empty() && trigger.strategy == BlockStrategy::kDiscardLater) {
      return reply(kFailed, "block strategy effect：Discard Later");
    }
    if (std::ssize(others) >= kWaitingMax) return reply(kFailed, fmt::format("{} runs wait already", kWaitingMax));
    QUERN_ASSIGN(const bool added, store_->add(trigger));
    if (!added) return reply(kFailed, fmt::format("repeate trigger job, logId:{}", trigger.log_id));
    if (trigger.strategy == BlockStrategy::kCoverEarly) {
      for (const Run& other : others) QUERN_TRY(give_up(other, kFailed, "block strategy effect：Cover Early"));
    }
    wake();
    return reply(kDone, "");
  }

  Result<std::string> kill(const std::string& body) {
    QUERN_ASSIGN(const int64_t job_id, parse_job_id(body));
    QUERN_ASSIGN(const auto runs, runs_of(job_id));
    if (runs.empty()) return reply(kDone, "job thread already killed.");
    for (const Run& run : runs) QUERN_TRY(give_up(run, kFailed, "scheduling center kill job."));
    wake();
    return reply(kDone, "");
  }

  Result<std::string> show_log(const std::string& body) {
    QUERN_ASSIGN(const LogQuery query, parse_log_query(body));
    QUERN_ASSIGN(const auto run, store_->find(query.log_id, query.log_time));
    if (!run) return log_reply(query.from, 0, "no run of this log id is known", true);
    std::string text;
    int64_t at = 0;
    const auto add = [&](const std::string& line) {
      ++at;
      if (at >= query.from && at < query.from + kLogLinesAtOnce) text += line + "\n";
    };
    add(fmt::format("{} {}", run->trigger.handler, run->target.empty() ? "waits" : run->target));
    const auto lines = handlers_.jobs.log(run->target, 1, JobStore::kLogLinesMax);
    if (lines) {
      for (const JobLogLine& line : *lines) add(line.text);
    }
    const bool ended = run->state == Run::State::kEnded;
    if (ended) add(fmt::format("ended with code {}: {}", run->code, run->message));
    const int64_t to = std::min(at, query.from + kLogLinesAtOnce - 1);
    return log_reply(query.from, to, text, ended && to == at);
  }

  Result<std::vector<Run>> runs_of(int64_t job_id) {
    QUERN_ASSIGN(auto runs, store_->open_runs());
    std::erase_if(runs, [&](const Run& run) { return run.trigger.job_id != job_id; });
    return runs;
  }

  Status give_up(const Run& run, int code, const std::string& why) {
    if (run.state == Run::State::kRunning) handlers_.give_up(run);
    return store_->end(run.trigger, code, why);
  }

  // Runs: one at a time of each of the admin's jobs.
  void look_after_runs() {
    while (!stopping_) {
      {
        const std::lock_guard lock(deciding_);
        if (const Status looked = look_once(); !looked) complain(looked.error().message);
      }
      wait(looked_, kLookInterval);
    }
  }

  Status look_once() {
    QUERN_ASSIGN(const auto runs, store_->open_runs());
    std::set<int64_t> busy;
    bool any_ended = false;
    for (const Run& run : runs) {
      if (run.state == Run::State::kWaiting) continue;
      const auto end = handlers_.look(run);
      const bool late = run.trigger.timeout_s > 0 && job_clock() - run.started >= run.trigger.timeout_s;
      if (end) {
        QUERN_TRY(store_->end(run.trigger, end->code, end->message));
      } else if (late) {
        QUERN_TRY(give_up(run, kTimedOut, "job execute timeout"));
      } else {
        busy.insert(run.trigger.job_id);
        continue;
      }
      any_ended = true;
    }
    for (const Run& run : runs) {
      if (run.state != Run::State::kWaiting || !busy.insert(run.trigger.job_id).second) continue;
      const auto target = handlers_.begin(run.trigger);
      if (target) {
        QUERN_TRY(store_->begin(run.trigger, *target, job_clock()));
      } else {
        QUERN_TRY(store_->end(run.trigger, kFailed, target.error().message));
        any_ended = true;
      }
    }
    if (any_ended) wake();
    return {};
  }

  // The admin is told: that this executor is there, and how runs ended.
  void report() {
    auto next_register = Clock::now();
    while (!stopping_) {
      if (Clock::now() >= next_register) {
        const bool taken = tell("/api/registry", registry_body(settings_.app, address_));
        next_register = Clock::now() + (taken ? kRegisterInterval : kRegisterAgain);
      }
      const bool told = tell_endings();
      wait(reported_, told ? milliseconds(1000) : milliseconds(kRegisterAgain));
    }
    tell_endings();
    tell("/api/registryRemove", registry_body(settings_.app, address_));
  }

  bool tell_endings() {
    for (;;) {
      const auto endings = store_->untold(kEndingsAtOnce);
      if (!endings) complain(endings.error().message);
      if (!endings || endings->empty()) return endings.has_value();
      if (!tell("/api/callback", callback_body(*endings))) return false;
      if (const Status told = store_->told(*endings); !told) {
        complain(told.error().message);
        return false;
      }
    }
  }

  // The admins of a cluster share one database: one that takes it is enough.
  bool tell(const char* path, const std::string& body) {
    HttpOptions options;
    options.seconds_max = options.stall_seconds_max = kAdminSecondsMax;
    if (!settings_.token.empty()) options.headers.push_back("XXL-JOB-ACCESS-TOKEN: " + settings_.token);
    for (const std::string& admin : settings_.admins) {
      const HttpCall call{
          .method = "POST", .url = admin + path, .body = body, .content_type = "application/json;charset=UTF-8"};
      const auto answer = http_call(call, options, kAnswerMax);
      if (answer && answer->status == 200 && is_done(answer->body)) return true;
      complain(fmt::format(
          "{}{}: {}", admin, path,
          answer ? fmt::format("status {}, {:.200}", answer->status, answer->body) : answer.error().message));
    }
    return false;
  }

  void complain(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (what == last_complaint_) return;
    last_complaint_ = what;
    log_.write(LogLevel::kWarning, "xxl-job: " + what);
  }

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      looked_ = reported_ = true;
    }
    changed_.notify_all();
  }
  void wait(bool& flag, milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return flag || stopping_; });
    flag = false;
  }

  const Settings settings_;
  const Handlers handlers_;
  const Log& log_;
  std::unique_ptr<RunStore> store_;
  std::unique_ptr<http::Server> server_;
  std::string address_;
  std::mutex deciding_;  // one question, or one look at runs, at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  bool looked_ = false, reported_ = false;  // guarded by mutex_: there is something to do
  std::string last_complaint_;              // guarded by mutex_
  std::atomic<bool> stopping_ = false;
  std::thread looking_, reporting_;
};

}  // namespace

Result<std::unique_ptr<Executor>> Executor::start(Settings settings, Jobs& jobs, Fleet* fleet, const Log& log) {
  auto executor = std::make_unique<RunningExecutor>(std::move(settings), jobs, fleet, log);
  QUERN_TRY(executor->begin());
  return executor;
}

}  // namespace quern::xxljob
