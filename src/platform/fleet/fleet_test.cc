// The fleet with real processes: the built `quern` (QUERN_BINARY) and SmolLM2 (QUERN_TEST_MODELS). Skipped without.
#include "platform/fleet/fleet.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "platform/fleet/worker_probe.h"
#include "platform/fleet/worker_process.h"

namespace quern {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class FleetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("QUERN_BINARY");
    const char* models = std::getenv("QUERN_TEST_MODELS");
    if (binary == nullptr || models == nullptr) {
      GTEST_SKIP() << "SKIPPED: QUERN_BINARY and QUERN_TEST_MODELS name no program and no folder of models";
    }
    program_ = binary;
    model_ = fs::path(models) / "SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!fs::exists(model_)) GTEST_SKIP() << "SKIPPED: no " << model_;
    home_ = fs::temp_directory_path() / ("fleet-test-" + std::to_string(::getpid()));
    fs::create_directories(home_);
    ::setenv("QUERN_HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    fleet_.reset();
    if (home_.empty()) return;
    // Whatever a test that failed left running.
    for (const MarkedProcess& each : find_marked_processes("QUERN_FLEET_REPLICA", home_.string())) {
      ::kill(static_cast<pid_t>(each.id.pid), SIGKILL);
    }
    while (::waitpid(-1, nullptr, 0) > 0) continue;
    fs::remove_all(home_);
  }

  FleetOptions options() const {
    return {.folder = home_ / "fleet",
            .program = program_,
            .memory_budget_bytes = int64_t{8} << 30,
            .health_interval = 200ms,
            .health_timeout = 1500ms,
            .drain_timeout = 5000ms,
            .log = [](const std::string& line) { std::fprintf(stderr, "  fleet: %s\n", line.c_str()); }};
  }
  void open(FleetOptions options) {
    auto opened = Fleet::open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().message;
    fleet_ = std::move(*opened);
  }
  LaunchSpec spec(const std::string& uid) const {
    LaunchSpec spec;
    spec.uid = uid;
    spec.model_name = "smollm2";
    spec.model_path = model_.string();
    spec.context = 512;
    spec.engine_options = {{"max_num_seqs", "4"}, {"threads", "1"}};
    return spec;
  }
  template <class Condition>
  static bool eventually(Condition condition, std::chrono::milliseconds time = 60s) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }
  bool is_ready(const std::string& uid, size_t count = 1) const {
    const auto model = fleet_->model(uid);
    if (!model) return false;
    size_t ready = 0;
    for (const ReplicaView& replica : model->replicas) ready += replica.state == ReplicaState::kReady ? 1 : 0;
    return ready == count && model->state == ModelState::kReady;
  }
  int64_t pid_of(const std::string& uid) const {
    const auto model = fleet_->model(uid);
    return model && !model->replicas.empty() ? model->replicas.front().pid : 0;
  }
  Fleet::LeaseResult lease(const std::string& uid, std::chrono::milliseconds patience = 60s,
                           std::vector<std::string> tried = {}) {
    auto promise = std::make_shared<std::promise<Fleet::LeaseResult>>();
    auto result = promise->get_future();
    fleet_->lease({.uid = uid, .tried = std::move(tried)}, patience,
                  [promise](Fleet::LeaseResult one) { promise->set_value(std::move(one)); });
    return result.get();
  }
  // What the worker at the lease's address says to GET path; 0: nothing.
  static int32_t ask(const Lease& lease, const std::string& path) { return ask_address(lease.address(), path); }
  static int32_t ask_address(const std::string& address, const std::string& path) {
    auto probes = WorkerProbes::create();
    (*probes)->ask(1, {.address = address, .path = path, .api_key = ""}, 5000ms);
    for (int i = 0; i < 1000; ++i) {
      const auto answers = (*probes)->wait({}, 100ms);
      if (!answers.empty()) return answers[0].status;
    }
    return -1;
  }
  size_t count_events(const std::string& uid, const std::string& kind) const {
    size_t count = 0;
    for (const FleetEvent& event : fleet_->events(uid, 0)) count += event.kind == kind ? 1 : 0;
    return count;
  }
  static size_t open_files() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
    return count;
  }

  fs::path program_, model_, home_;
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(FleetTest, AModelIsLaunchedServedAndTerminated) {
  open(options());
  const auto uid = fleet_->launch(spec("m"));
  ASSERT_TRUE(uid) << uid.error().message;
  EXPECT_TRUE(fleet_->knows("m"));
  EXPECT_EQ(fleet_->launch(spec("m")).error().code, ErrorCode::kInvalidArgument);
  auto leased = lease("m");
  ASSERT_TRUE(leased) << leased.error().message;
  EXPECT_EQ((*leased)->replica(), "m-0");
  EXPECT_EQ(ask(**leased, "/v1/models"), 200);
  EXPECT_EQ(fleet_->model("m")->replicas[0].in_flight, 1);
  (*leased)->finish(Lease::Outcome::kOk);
  EXPECT_EQ(fleet_->model("m")->replicas[0].in_flight, 0);
  ASSERT_TRUE(is_ready("m"));
  const int64_t pid = pid_of("m");
  EXPECT_GT(pid, 0);
  EXPECT_TRUE(fleet_->terminate("m"));
  EXPECT_FALSE(fleet_->knows("m"));
  EXPECT_TRUE(eventually([&] { return !fleet_->model("m"); }));
  EXPECT_EQ(process_start_time(pid), 0);
  EXPECT_EQ(lease("m").error().reason, RouteRefusal::Reason::kUnknownModel);
}

TEST_F(FleetTest, AKilledWorkerIsRestartedAndServedAgain) {
  open(options());
  ASSERT_TRUE(fleet_->launch(spec("m")));
  ASSERT_TRUE(eventually([&] { return is_ready("m"); }));
  const int64_t before = pid_of("m");
  ASSERT_EQ(::kill(static_cast<pid_t>(before), SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return count_events("m", "died") == 1; }, 5s));
  auto leased = lease("m");
  ASSERT_TRUE(leased) << leased.error().message;
  EXPECT_EQ(ask(**leased, "/health"), 200);
  EXPECT_NE(pid_of("m"), before);
  EXPECT_EQ(fleet_->model("m")->replicas[0].restarts, 1);
}

TEST_F(FleetTest, AStuckWorkerIsReplaced) {
  open(options());
  ASSERT_TRUE(fleet_->launch(spec("m")));
  ASSERT_TRUE(eventually([&] { return is_ready("m"); }));
  const int64_t before = pid_of("m");
  ASSERT_EQ(::kill(static_cast<pid_t>(before), SIGSTOP), 0);
  ASSERT_TRUE(eventually([&] { return count_events("m", "stuck") == 1; }, 10s));
  ASSERT_TRUE(eventually([&] { return is_ready("m") && pid_of("m") != before; }));
  EXPECT_EQ(process_start_time(before), 0);
}

TEST_F(FleetTest, WorkersOutliveTheFleetAndAreAdopted) {
  open(options());
  ASSERT_TRUE(fleet_->launch(spec("a")));
  ASSERT_TRUE(fleet_->launch(spec("b")));
  ASSERT_TRUE(eventually([&] { return is_ready("a") && is_ready("b"); }));
  const int64_t a = pid_of("a"), b = pid_of("b");
  EXPECT_EQ(Fleet::open(options()).error().code, ErrorCode::kUnavailable);
  fleet_.reset();
  EXPECT_NE(process_start_time(a), 0);
  // One dies while nobody looks.
  ::kill(static_cast<pid_t>(b), SIGKILL);
  ::waitpid(static_cast<pid_t>(b), nullptr, 0);
  open(options());
  ASSERT_TRUE(eventually([&] { return is_ready("a"); }, 3s));
  EXPECT_EQ(pid_of("a"), a);
  EXPECT_EQ(count_events("a", "adopted"), 1u);
  ASSERT_TRUE(eventually([&] { return is_ready("b"); }));
  EXPECT_NE(pid_of("b"), b);
  EXPECT_EQ(ask(**lease("a"), "/health"), 200);
}

// The server's own process dies by kill -9.
TEST_F(FleetTest, WorkersOfAKilledServerAreAdopted) {
  const pid_t server = ::fork();
  ASSERT_GE(server, 0);
  if (server == 0) {
    auto opened = Fleet::open(options());
    if (!opened || !(*opened)->launch(spec("a")) || !(*opened)->launch(spec("b"))) ::_exit(1);
    std::this_thread::sleep_for(std::chrono::hours(1));
    ::_exit(1);
  }
  // Seen from outside: two processes with the folder's mark, whose sockets answer.
  std::vector<int64_t> pids;
  const auto loaded = [&] {
    pids.clear();
    for (const MarkedProcess& each : find_marked_processes("QUERN_FLEET_REPLICA", home_.string())) {
      pids.push_back(each.id.pid);
    }
    size_t well = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(home_ / "fleet/run", ignored)) {
      well += ask_address("unix:" + entry.path().string(), "/health") == 200 ? 1 : 0;
    }
    return pids.size() == 2 && well == 2;
  };
  const bool up = eventually(loaded);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  ASSERT_TRUE(up);
  const auto begin = std::chrono::steady_clock::now();
  open(options());
  ASSERT_TRUE(eventually([&] { return is_ready("a") && is_ready("b"); }, 3s));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "  adopted within %.3f s\n", took.count());
  std::vector<int64_t> adopted = {pid_of("a"), pid_of("b")};
  std::ranges::sort(adopted);
  std::ranges::sort(pids);
  EXPECT_EQ(adopted, pids);
  EXPECT_EQ(ask(**lease("b"), "/v1/models"), 200);
}

TEST_F(FleetTest, AFullDiskRefusesWishesAndServesOn) {
  open(options());
  ASSERT_TRUE(fleet_->launch(spec("m")));
  ASSERT_TRUE(eventually([&] { return is_ready("m"); }));
  const auto used = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit none = before;
  none.rlim_cur = 0;  // no file may grow: as if the disk were full
  ::setrlimit(RLIMIT_FSIZE, &none);
  const auto refused = fleet_->launch(spec("n"));
  const auto still_there = fleet_->terminate("m");
  auto leased = lease("m", 1s);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, used);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_NE(refused.error().message.find("fleet.db"), std::string::npos) << refused.error().message;
  EXPECT_FALSE(still_there);
  ASSERT_TRUE(leased) << leased.error().message;
  EXPECT_EQ(ask(**leased, "/health"), 200);
  EXPECT_TRUE(fleet_->launch(spec("n")));
}

TEST_F(FleetTest, AnIdleModelGoesAndComesBackByARequest) {
  open(options());
  LaunchSpec idle = spec("m");
  idle.keep_alive_s = 0.5;
  ASSERT_TRUE(fleet_->launch(idle));
  ASSERT_TRUE(eventually([&] { return is_ready("m"); }));
  const double load_s = fleet_->model("m")->replicas[0].load_seconds;
  ASSERT_TRUE(eventually([&] { return fleet_->model("m")->idle && pid_of("m") == 0; }, 10s));
  EXPECT_EQ(fleet_->model("m")->state, ModelState::kReady);
  const auto begin = std::chrono::steady_clock::now();
  auto leased = lease("m");
  ASSERT_TRUE(leased) << leased.error().message;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("from_zero_s", std::to_string(took.count()));
  std::fprintf(stderr, "  from zero: %.3f s; that load: %.3f s; the first: %.3f s\n", took.count(),
               fleet_->model("m")->replicas[0].load_seconds, load_s);
  EXPECT_EQ(ask(**leased, "/health"), 200);
}

TEST_F(FleetTest, AModelThatCannotLoadSaysWhy) {
  open(options());
  const fs::path broken = home_ / "broken.gguf";
  fs::copy_file(model_, broken);
  fs::resize_file(broken, 100000);
  LaunchSpec bad = spec("bad");
  bad.model_path = broken.string();
  const auto refused = fleet_->launch(bad);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("broken.gguf"), std::string::npos) << refused.error().message;
  bad = spec("bad");
  bad.engine_options["max_num_sequences"] = "3";
  EXPECT_NE(fleet_->launch(bad).error().message.find("max_num_sequences"), std::string::npos);
  // What only the worker finds out: its own words.
  bad = spec("bad");
  bad.engine_options["speculative_method"] = "sorcery";
  ASSERT_TRUE(fleet_->launch(bad));
  ASSERT_TRUE(eventually([&] { return fleet_->model("bad")->state == ModelState::kError; }));
  EXPECT_NE(fleet_->model("bad")->message.find("sorcery"), std::string::npos) << fleet_->model("bad")->message;
  EXPECT_EQ(lease("bad").error().reason, RouteRefusal::Reason::kUnavailable);
}

TEST_F(FleetTest, AnUpdateServesWithoutAGap) {
  open(options());
  ASSERT_TRUE(fleet_->launch(spec("m")));
  ASSERT_TRUE(eventually([&] { return is_ready("m"); }));
  const int64_t before = pid_of("m");
  LaunchSpec other = spec("m");
  other.context = 256;
  ASSERT_TRUE(fleet_->update(other));
  while (pid_of("m") == before || !is_ready("m")) {
    auto leased = lease("m", 1s);
    ASSERT_TRUE(leased) << leased.error().message;
    // A worker that drains still answers who came before.
    EXPECT_EQ(ask(**leased, "/v1/models"), 200);
    (*leased)->finish(Lease::Outcome::kOk);
  }
  EXPECT_EQ(fleet_->model("m")->replicas.size(), 1u);
}

TEST_F(FleetTest, ACorruptStateIsSetAside) {
  open(options());
  ASSERT_TRUE(fleet_->launch(spec("m")));
  ASSERT_TRUE(eventually([&] { return is_ready("m"); }));
  const int64_t pid = pid_of("m");
  fleet_.reset();
  std::ofstream(home_ / "fleet/fleet.db", std::ios::binary) << "no database at all, but long enough to be looked at";
  open(options());
  EXPECT_TRUE(fs::exists(home_ / "fleet/fleet.db.broken-1"));
  EXPECT_TRUE(fleet_->models().empty());
  EXPECT_TRUE(eventually([&] { return process_start_time(pid) == 0; }, 5s));
  ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  ASSERT_TRUE(fleet_->launch(spec("m")));
  EXPECT_TRUE(eventually([&] { return is_ready("m"); }));
}

// A server that is not ours: here our own, started by hand.
TEST_F(FleetTest, AUrlIsServedWhileItAnswers) {
  open(options());
  const auto serve = [&](const std::string& port) {
    auto server = WorkerProcess::start({.argv = {program_.string(), "serve", model_.string(), "--port", port,
                                                 "--served-model-name", "theirs", "-t", "1"},
                                        .environment = {"QUERN_HOME=" + home_.string(), "QUERN_API_KEY=secret"},
                                        .log_file = home_ / "server.log"});
    EXPECT_TRUE(server) << server.error().message;
    return std::move(*server);
  };
  const auto port = [&] {
    std::ifstream log(home_ / "server.log");
    const std::string text((std::istreambuf_iterator<char>(log)), {});
    const size_t at = text.rfind("http://127.0.0.1:");
    return at == std::string::npos ? "" : std::to_string(std::atoi(text.c_str() + at + 17));
  };
  WorkerProcess server = serve("0");
  ASSERT_TRUE(eventually([&] { return !port().empty(); }));
  LaunchSpec remote{.uid = "r", .model_name = "theirs", .engine = "openai"};
  remote.model_path = "http://127.0.0.1:" + port() + "/v1";
  remote.env = {{"OPENAI_API_KEY", "secret"}};
  ASSERT_TRUE(fleet_->launch(remote));
  {
    auto leased = lease("r");
    ASSERT_TRUE(leased) << leased.error().message;
    EXPECT_EQ((*leased)->model(), "theirs");
    EXPECT_EQ((*leased)->api_key(), "secret");
    EXPECT_EQ((*leased)->base_path(), "");
    EXPECT_EQ((*leased)->engine(), "openai");
  }
  server.kill_group();
  ASSERT_TRUE(eventually([&] { return server.poll_end().has_value(); }));
  ASSERT_TRUE(eventually([&] { return !is_ready("r"); }));
  EXPECT_EQ(lease("r", 100ms).error().reason, RouteRefusal::Reason::kTimeout);
  server = serve(port());
  ASSERT_TRUE(eventually([&] { return is_ready("r"); }));
  EXPECT_TRUE(lease("r"));
  ASSERT_TRUE(fleet_->terminate("r"));
  EXPECT_TRUE(eventually([&] { return !fleet_->model("r"); }));
  server.kill_group();
  ASSERT_TRUE(eventually([&] { return server.poll_end().has_value(); }));
}

// Files come from a server of files on this machine.
TEST_F(FleetTest, FilesArePulledFirst) {
  auto server = WorkerProcess::start({.argv = {"/usr/bin/env", "python3", "-u", "-m", "http.server", "0", "--bind",
                                               "127.0.0.1", "--directory", model_.parent_path().string()},
                                      .environment = {std::string("PATH=") + std::getenv("PATH")},
                                      .log_file = home_ / "files.log"});
  ASSERT_TRUE(server);
  const auto port = [&] {
    std::ifstream log(home_ / "files.log");
    const std::string text((std::istreambuf_iterator<char>(log)), {});
    const size_t at = text.find(" port ");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 6);
  };
  ASSERT_TRUE(eventually([&] { return port() > 0; }));
  const std::string base = "http://127.0.0.1:" + std::to_string(port()) + "/";
  open(options());
  LaunchSpec missing = spec("missing");
  missing.model_path.clear();
  missing.model_name = base + "none.gguf";
  ASSERT_TRUE(fleet_->launch(missing));
  ASSERT_TRUE(eventually([&] { return fleet_->model("missing")->state == ModelState::kError; }));
  EXPECT_NE(fleet_->model("missing")->message.find("404"), std::string::npos) << fleet_->model("missing")->message;
  LaunchSpec pulled = spec("");
  pulled.model_path.clear();
  pulled.model_name = base + model_.filename().string();
  const auto uid = fleet_->launch(pulled);
  ASSERT_TRUE(uid) << uid.error().message;
  EXPECT_EQ(*uid, model_.stem().string());
  auto leased = lease(*uid);
  ASSERT_TRUE(leased) << leased.error().message;
  EXPECT_EQ(count_events(*uid, "pulling"), 1u);
  EXPECT_EQ(count_events(*uid, "pulled"), 1u);
  EXPECT_GT(fleet_->model(*uid)->memory_estimate, 0);
  server->kill_group();
  ASSERT_TRUE(eventually([&] { return server->poll_end().has_value(); }));
}

TEST_F(FleetTest, ReplicasComeAndGo) {
  open(options());
  LaunchSpec three = spec("m");
  three.replicas = 3;
  ASSERT_TRUE(fleet_->launch(three));
  ASSERT_TRUE(eventually([&] { return is_ready("m", 3); }));
  ASSERT_TRUE(fleet_->stop_replica("m", "m-1"));
  ASSERT_TRUE(eventually([&] { return is_ready("m", 2) && fleet_->model("m")->replicas.size() == 2; }));
  EXPECT_EQ(fleet_->model("m")->replicas[1].id, "m-2");
  EXPECT_EQ(fleet_->model("m")->spec.replicas, 2);
  EXPECT_EQ(fleet_->stop_replica("m", "m-1").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(fleet_->set_replicas("m", 1));
  ASSERT_TRUE(eventually([&] { return is_ready("m", 1) && fleet_->model("m")->replicas.size() == 1; }));
  ASSERT_TRUE(fleet_->unload("m"));
  ASSERT_TRUE(eventually([&] { return fleet_->model("m")->idle; }));
  EXPECT_TRUE(lease("m"));
  ASSERT_TRUE(is_ready("m", 1));
}

// Room for one: the other goes when it is asked for, and its limit of requests holds.
TEST_F(FleetTest, TwoModelsTakeTurnsInTheMemoryOfOne) {
  FleetOptions small = options();
  open(small);
  ASSERT_TRUE(fleet_->launch(spec("probe")));
  const int64_t needs = fleet_->model("probe")->memory_estimate;
  ASSERT_GT(needs, 0);
  ASSERT_TRUE(fleet_->terminate("probe"));
  ASSERT_TRUE(eventually([&] { return !fleet_->model("probe"); }));
  fleet_.reset();
  small.memory_budget_bytes = needs + needs / 2;
  open(small);
  LaunchSpec limited = spec("a");
  limited.request_limit = 1;
  ASSERT_TRUE(fleet_->launch(limited));
  ASSERT_TRUE(eventually([&] { return is_ready("a"); }));
  std::this_thread::sleep_for(1100ms);  // kResidencyMs
  ASSERT_TRUE(fleet_->launch(spec("b")));
  ASSERT_TRUE(eventually([&] { return is_ready("b"); }));
  EXPECT_TRUE(fleet_->model("a")->idle);
  EXPECT_EQ(count_events("a", "evicted"), 1u);
  {
    auto leased = lease("a");
    ASSERT_TRUE(leased) << leased.error().message;
    EXPECT_EQ(lease("a").error().reason, RouteRefusal::Reason::kBusy);
    // Busy: not sent away for another.
    EXPECT_EQ(lease("b", 2s).error().reason, RouteRefusal::Reason::kTimeout);
    EXPECT_TRUE(is_ready("a"));
  }
  EXPECT_TRUE(lease("b"));
  small.memory_budget_bytes = needs / 2;
  fleet_.reset();
  open(small);
  EXPECT_EQ(fleet_->launch(spec("c")).error().code, ErrorCode::kResourceExhausted);
}

TEST_F(FleetTest, LaunchesAndTerminationsLeaveNothing) {
  open(options());
  const auto once = [&](int i) {
    ASSERT_TRUE(fleet_->launch(spec("m")));
    // Some are served, some are terminated while they load.
    if (i % 4 == 0) {
      ASSERT_TRUE(lease("m"));
    }
    ASSERT_TRUE(fleet_->terminate("m"));
    ASSERT_TRUE(eventually([&] { return !fleet_->model("m"); }, 20s));
  };
  once(0);
  const size_t files = open_files();
  for (int i = 0; i < 100; ++i) once(i);
  EXPECT_EQ(open_files(), files);
  EXPECT_TRUE(find_marked_processes("QUERN_FLEET_REPLICA", home_.string()).empty());
  size_t left = 0;
  for (const char* folder : {"run", "logs"}) {
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(home_ / "fleet" / folder)) ++left;
  }
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
}

}  // namespace
}  // namespace quern
