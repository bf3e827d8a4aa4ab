#include "platform/fleet/worker_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

namespace quern {
namespace {

namespace fs = std::filesystem;

class WorkerProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("worker-process-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<WorkerProcess> shell(const std::string& script,
                              std::vector<std::string> environment = {"PATH=/usr/bin:/bin"}) {
    return WorkerProcess::start(
        {.argv = {"/bin/sh", "-c", script}, .environment = std::move(environment), .log_file = folder_ / "log"});
  }
  std::string log() const {
    std::ifstream file(folder_ / "log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static WorkerProcess::End wait(WorkerProcess& process) {
    for (;;) {
      pollfd ended{.fd = process.fd(), .events = POLLIN, .revents = 0};
      ::poll(&ended, 1, 20000);
      if (auto end = process.poll_end()) return *end;
      if ((ended.revents & POLLIN) == 0) return {.text = "did not end"};
    }
  }
  // A line that the script has written.
  bool wait_for_line(const std::string& line) const {
    for (int i = 0; i < 2000; ++i) {
      if (log().find(line + "\n") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  fs::path folder_;
};

TEST_F(WorkerProcessTest, HowItEndedIsTold) {
  auto process = shell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(process) << process.error().message;
  const auto end = wait(*process);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.text, "exit code 3");
  EXPECT_EQ(log(), "out\nerr\n");
  process = shell("kill -SEGV $$");
  EXPECT_EQ(wait(*process).text, "signal 11 (Segmentation fault)");
  process = shell("exec sleep 100");
  process->kill_group();
  EXPECT_EQ(wait(*process).signal, SIGKILL);
  const auto missing =
      WorkerProcess::start({.argv = {"/no/such/program"}, .environment = {}, .log_file = folder_ / "log"});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/no/such/program"), std::string::npos);
}

TEST_F(WorkerProcessTest, NothingIsInheritedButTheLog) {
  const int file = ::open("/dev/null", O_RDONLY);
  const int leaked = ::fcntl(file, F_DUPFD, 200);  // without close-on-exec
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  ::signal(SIGPIPE, SIG_IGN);
  auto process = shell("[ -e /proc/$$/fd/2 ] && [ ! -e /proc/$$/fd/" + std::to_string(leaked) +
                       " ] && echo closed; grep SigBlk /proc/self/status; grep SigIgn /proc/self/status | tail -c 8; "
                       "cat; cut -d' ' -f5,6 /proc/$$/stat; echo $$");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::close(leaked);
  ::close(file);
  ASSERT_TRUE(process);
  EXPECT_EQ(wait(*process).exit_code, 0);
  // Of the ignored ones the lowest 28: the C library keeps two above to itself.
  const std::string pid = std::to_string(process->id().pid);
  EXPECT_EQ(log(), "closed\nSigBlk:\t0000000000000000\n0000000\n" + pid + " " + pid + "\n" + pid + "\n");
}

TEST_F(WorkerProcessTest, ItsChildrenGoWithIt) {
  auto process =
      shell("sleep 1000 & echo child $!; wait", {"PATH=/usr/bin:/bin", "FLEET_TEST_MARK=" + folder_.string()});
  ASSERT_TRUE(process);
  ASSERT_TRUE([&] {
    for (int i = 0; i < 2000 && find_marked_processes("FLEET_TEST_MARK", folder_.string()).size() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return find_marked_processes("FLEET_TEST_MARK", folder_.string()).size() == 2;
  }());
  for (const auto& each : find_marked_processes("FLEET_TEST_MARK", folder_.string())) {
    EXPECT_EQ(each.session, process->id().pid);
    EXPECT_EQ(each.value, folder_.string());
  }
  EXPECT_GT(process_memory(process->id().pid).resident, 0);
  // The worker alone is killed: what it has started ends as well.
  ::kill(static_cast<pid_t>(process->id().pid), SIGKILL);
  EXPECT_EQ(wait(*process).signal, SIGKILL);
  for (int i = 0; i < 2000 && !find_marked_processes("FLEET_TEST_MARK", folder_.string()).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(find_marked_processes("FLEET_TEST_MARK", folder_.string()).empty());
}

TEST_F(WorkerProcessTest, AnotherProcessOfTheSameNumberIsNotAdopted) {
  auto process = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(process);
  ASSERT_TRUE(wait_for_line("ready"));
  const ProcessId id = process->id();
  EXPECT_FALSE(WorkerProcess::adopt({.pid = id.pid, .start_time = id.start_time + 1}));
  EXPECT_FALSE(WorkerProcess::adopt({.pid = 0, .start_time = 0}));
  EXPECT_FALSE(WorkerProcess::adopt({.pid = 1, .start_time = process_start_time(1)}));
  auto adopted = WorkerProcess::adopt(id);
  ASSERT_TRUE(adopted);
  adopted->terminate();
  EXPECT_EQ(wait(*adopted).exit_code, 7);
  EXPECT_FALSE(WorkerProcess::adopt(id));
}

TEST_F(WorkerProcessTest, ALogStaysBounded) {
  const fs::path log = folder_ / "big";
  auto process = WorkerProcess::start({.argv = {"/bin/sh", "-c", "yes 0123456789 | head -c 3000000; exec sleep 1000"},
                                       .environment = {"PATH=/usr/bin:/bin"},
                                       .log_file = log});
  ASSERT_TRUE(process);
  for (int i = 0; i < 2000 && (!fs::exists(log) || fs::file_size(log) < 3000000); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  bound_log(log, 4000000);
  EXPECT_EQ(fs::file_size(log), 3000000u);
  bound_log(log, 1000000);
  EXPECT_EQ(fs::file_size(log), 0u);
  EXPECT_EQ(fs::file_size(log.string() + ".1"), 3000000u);
  process->kill_group();
  EXPECT_EQ(wait(*process).signal, SIGKILL);
}

}  // namespace
}  // namespace quern
