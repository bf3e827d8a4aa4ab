#include "platform/jobs/jobs.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

class TestFolder {
 public:
  TestFolder() : path_(::mkdtemp(template_)) {}
  ~TestFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  char template_[32] = "/tmp/quern-jobs-test-XXXXXX";
  fs::path path_;
};

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string line_of(int number, const std::string& model = "m") {
  return dump_json({{"custom_id", "line-" + std::to_string(number)},
                    {"method", "POST"},
                    {"url", "/v1/completions"},
                    {"body", {{"model", model}, {"prompt", number}}}}) +
         "\n";
}

std::string lines_of(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line_of(i);
  return text;
}

// Answers lines on a thread of its own, in turn, with what a test says; keeps files in memory.
class TestServer {
 public:
  struct Asked {
    LineCall call;
    std::function<void(LineAnswer)> done;
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  };
  using Answer = std::function<std::optional<LineAnswer>(const LineCall&)>;  // nullopt: not yet

  explicit TestServer(Answer answer) : answer_(std::move(answer)), thread_([this] { run(); }) {}
  ~TestServer() {
    stopping_ = true;
    thread_.join();
  }

  JobsOptions options(const fs::path& folder, const fs::path& paths_below = {}) {
    JobsOptions options;
    options.folder = folder;
    options.paths_below = paths_below;
    options.read_file = [this](const std::string& id) -> Result<std::string> {
      const std::lock_guard lock(mutex_);
      if (!files_.contains(id)) return not_found("No such File object: " + id);
      return files_[id];
    };
    options.keep_file = [this](const std::string& id, const std::string&, std::string text) -> Status {
      const std::lock_guard lock(mutex_);
      files_.try_emplace(id, std::move(text));
      return {};
    };
    options.run_line = [this](LineCall call, std::function<void(LineAnswer)> done) -> std::shared_ptr<LineHandle> {
      Asked asked{.call = std::move(call), .done = std::move(done)};
      auto handle = std::make_shared<Handle>();
      handle->cancelled = asked.cancelled;
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(asked));
      ++num_asked_;
      return handle;
    };
    options.look_at = [this](const std::string& model) {
      return PlannedModel{.known = model != "absent", .clients = clients.load()};
    };
    return options;
  }
  void put(const std::string& id, const std::string& text) {
    const std::lock_guard lock(mutex_);
    files_[id] = text;
  }
  std::string file(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return files_[id];
  }
  int num_asked() const { return num_asked_; }

  std::atomic<int64_t> clients = 0;

 private:
  struct Handle final : LineHandle {
    void cancel() override { *cancelled = true; }
    std::shared_ptr<std::atomic<bool>> cancelled;
  };
  void run() {
    while (!stopping_) {
      std::deque<Asked> asked;
      {
        const std::lock_guard lock(mutex_);
        asked.swap(asked_);
      }
      for (Asked& one : asked) {
        std::optional<LineAnswer> answer = LineAnswer{};
        if (!*one.cancelled) answer = answer_(one.call);
        if (answer) {
          one.done(std::move(*answer));
          continue;
        }
        const std::lock_guard lock(mutex_);
        asked_.push_back(std::move(one));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const Answer answer_;
  std::mutex mutex_;
  std::deque<Asked> asked_;                   // guarded by mutex_
  std::map<std::string, std::string> files_;  // guarded by mutex_
  std::atomic<int> num_asked_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

LineAnswer echo(const LineCall& call) {
  return {.status = 200, .body = call.body};
}

JobSpec spec_of(const char* file) {
  JobSpec spec;
  spec.input_file_id = file;
  return spec;
}

JobView wait_for_end(Jobs& jobs, const std::string& id) {
  for (int i = 0; i < 6000; ++i) {
    const auto job = jobs.job(id);
    if (job && job->published) return *job;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << id << " has not ended";
  return {};
}

std::vector<std::string> ids_of(const std::string& text) {
  std::vector<std::string> ids;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const auto line = parse_json(std::string_view(text).substr(begin, end - begin), "line");
    ids.push_back(line ? line->value("custom_id", "") : "broken: " + text.substr(begin, end - begin));
    begin = end + 1;
  }
  return ids;
}

TEST(Jobs, AnswersAndErrorsInTheOrderOfTheInput) {
  const TestFolder folder;
  std::atomic<int> tries = 0;
  TestServer server([&](const LineCall& call) -> std::optional<LineAnswer> {
    if (call.body.find("\"prompt\":3}") != std::string::npos) return LineAnswer{.status = 400, .body = "{\"error\":1}"};
    if (call.body.find("\"prompt\":4}") != std::string::npos && ++tries < 3)
      return LineAnswer{.status = 502, .body = "{}"};
    if (call.body.find("\"prompt\":5}") != std::string::npos) return LineAnswer{};
    return echo(call);
  });
  server.put("in", lines_of(8));
  const auto jobs = Jobs::open(server.options(folder.path() / "jobs"));
  ASSERT_TRUE(jobs);
  (*jobs)->start();
  JobSpec spec = spec_of("in");
  spec.retries = 2;
  const auto added = (*jobs)->add(spec);
  ASSERT_TRUE(added) << added.error().message;
  const JobView job = wait_for_end(**jobs, added->id);
  EXPECT_EQ(job.state, JobState::kCompleted);
  EXPECT_EQ(job.done, 6);
  EXPECT_EQ(job.failed, 2);
  EXPECT_EQ(ids_of(server.file(job.output_file_id)),
            (std::vector<std::string>{"line-0", "line-1", "line-2", "line-4", "line-6", "line-7"}));
  EXPECT_EQ(ids_of(server.file(job.error_file_id)), (std::vector<std::string>{"line-3", "line-5"}));
  EXPECT_EQ(tries, 3);
  // The results are there before the folder is gone.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fs::exists(folder.path() / "jobs" / job.id) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(fs::exists(folder.path() / "jobs" / job.id));
  EXPECT_TRUE((*jobs)->remove(job.id));
  EXPECT_FALSE((*jobs)->job(job.id));
}

// The process is killed again and again, wherever it stands; a line that was cut lies in the file of results.
TEST(Jobs, EveryLineOnceHoweverOftenTheProcessIsKilled) {
  const TestFolder folder;
  const fs::path queue = folder.path() / "jobs", input = folder.path() / "in.jsonl";
  std::ofstream(input) << lines_of(300);
  const fs::path below = fs::canonical(folder.path());
  std::string id;
  {
    TestServer server([](const LineCall& call) { return echo(call); });
    const auto jobs = Jobs::open(server.options(queue, below));
    ASSERT_TRUE(jobs);
    JobSpec spec;
    spec.input_path = "in.jsonl";
    spec.max_concurrency = 4;
    const auto added = (*jobs)->add(spec);
    ASSERT_TRUE(added) << added.error().message;
    id = added->id;
  }
  int kills = 0;
  for (;; ++kills) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TestServer server([](const LineCall& call) -> std::optional<LineAnswer> {
        ::usleep(300);
        return echo(call);
      });
      auto jobs = Jobs::open(server.options(queue, below));
      if (!jobs) ::_exit(3);
      (*jobs)->start();
      for (;;) {
        const auto job = (*jobs)->job(id);
        if (job && job->published) ::_exit(0);
        ::usleep(1000);
      }
    }
    ::usleep(static_cast<useconds_t>(20'000 + kills * 3000));
    const bool last = kills >= 12;
    if (!last) ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    if (fs::exists(queue / id / "results.jsonl"))
      std::ofstream(queue / id / "results.jsonl", std::ios::app) << "{\"cus";
  }
  EXPECT_GT(kills, 0);
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) expected.push_back("line-" + std::to_string(i));
  EXPECT_EQ(ids_of(read_text(input.string() + ".output.jsonl")), expected);
}

TEST(Jobs, PauseResumeCancel) {
  const TestFolder folder;
  std::atomic<bool> answers = false;
  TestServer server([&](const LineCall& call) -> std::optional<LineAnswer> {
    return answers ? std::optional(echo(call)) : std::nullopt;
  });
  server.put("in", lines_of(20));
  const auto jobs = Jobs::open(server.options(folder.path() / "jobs"));
  ASSERT_TRUE(jobs);
  (*jobs)->start();
  JobSpec spec = spec_of("in");
  spec.max_concurrency = 3;
  const auto added = (*jobs)->add(spec);
  ASSERT_TRUE(added);
  while (server.num_asked() < 3) std::this_thread::yield();
  EXPECT_EQ((*jobs)->pause(added->id)->state, JobState::kPaused);
  EXPECT_FALSE((*jobs)->remove(added->id));
  answers = true;
  // Those that ran are answered, no others begin.
  while ((*jobs)->job(added->id)->done < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(server.num_asked(), 3);
  EXPECT_EQ((*jobs)->job(added->id)->state, JobState::kPaused);
  answers = false;
  EXPECT_TRUE((*jobs)->resume(added->id));
  EXPECT_FALSE((*jobs)->resume(added->id));
  while (server.num_asked() < 6) std::this_thread::yield();
  EXPECT_EQ((*jobs)->cancel(added->id)->state, JobState::kCancelled);
  const JobView job = wait_for_end(**jobs, added->id);
  EXPECT_EQ(job.state, JobState::kCancelled);
  EXPECT_EQ(job.done, 3);
  EXPECT_EQ(ids_of(server.file(job.output_file_id)).size(), 3u);
  EXPECT_FALSE((*jobs)->cancel(added->id));
}

TEST(Jobs, WaitsForClientsModelsAndItsDeadline) {
  const TestFolder folder;
  TestServer server([](const LineCall& call) { return echo(call); });
  server.clients = 1;
  server.put("in", lines_of(3));
  server.put("absent", line_of(0, "absent"));
  const auto jobs = Jobs::open(server.options(folder.path() / "jobs"));
  ASSERT_TRUE(jobs);
  (*jobs)->start();
  const auto busy = (*jobs)->add(spec_of("in"));
  JobSpec late = spec_of("absent");
  late.deadline = job_clock() + 1;
  const auto absent = (*jobs)->add(late);
  ASSERT_TRUE(busy && absent);
  EXPECT_EQ(wait_for_end(**jobs, absent->id).state, JobState::kExpired);
  EXPECT_EQ(server.num_asked(), 0);
  EXPECT_EQ((*jobs)->job(busy->id)->state, JobState::kQueued);
  EXPECT_NE((*jobs)->job(busy->id)->message.find("clients"), std::string::npos);
  server.clients = 0;
  EXPECT_EQ(wait_for_end(**jobs, busy->id).done, 3);
}

TEST(Jobs, RefusesByName) {
  const TestFolder folder;
  TestServer server([](const LineCall& call) { return echo(call); });
  fs::create_directories(folder.path() / "below");
  std::ofstream(folder.path() / "secret") << lines_of(1);
  fs::create_symlink(folder.path() / "secret", folder.path() / "below/link");
  const auto jobs = Jobs::open(server.options(folder.path() / "jobs", fs::canonical(folder.path() / "below")));
  ASSERT_TRUE(jobs);
  for (const char* path : {"../secret", "link", "/etc/passwd", ".", "none"}) {
    JobSpec spec;
    spec.input_path = path;
    const auto added = (*jobs)->add(spec);
    ASSERT_FALSE(added) << path;
    EXPECT_TRUE(added.error().message.starts_with("input_path: ")) << added.error().message;
  }
  const std::string good = line_of(0);
  for (const std::string& text :
       {std::string(), std::string("x\n"), good + good, std::string("[]\n"),
        std::string(R"({"custom_id":"a","method":"POST","url":"/v1/models","body":{}})"),
        std::string(R"({"custom_id":"a","method":"GET","url":"/v1/completions","body":{}})"),
        std::string(R"({"custom_id":7,"method":"POST","url":"/v1/completions","body":{}})"),
        std::string(R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":[]})")}) {
    server.put("bad", text);
    const auto added = (*jobs)->add(spec_of("bad"));
    ASSERT_FALSE(added) << text;
    EXPECT_TRUE(added.error().message.starts_with("input_file_id: ")) << added.error().message;
  }
  for (const Json& body :
       {Json{{"input_file_id", "a"}, {"input_path", "b"}}, Json::object(), Json{{"input_file_id", 3}},
        Json{{"input_file_id", "a"}, {"priority", 1.5}}, Json{{"input_file_id", "a"}, {"priority", 1e30}},
        Json{{"input_file_id", "a"}, {"window", "always"}}, Json{{"input_file_id", "a"}, {"deadline", 5}},
        Json{{"input_file_id", "a"}, {"endpoint", "/v1/completions"}}, Json{{"input_file_id", "a\n"}}}) {
    EXPECT_FALSE(job_spec_from_json(body, 1000)) << body;
  }
  EXPECT_EQ(job_spec_from_json({{"input_file_id", "a"}, {"deadline", "2h"}}, 1000)->deadline, 8200);
}

}  // namespace
}  // namespace quern
