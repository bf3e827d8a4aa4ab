// Real programs, scripts in a folder of the test's own.
#include "hardware/inventory/tool_run.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace quern {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class ToolRunTest : public ::testing::Test {
 protected:
  ToolRunTest() {
    std::string pattern = (fs::temp_directory_path() / "quern-tools-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ToolRunTest() override { fs::remove_all(folder_); }

  void add_tool(const std::string& name, const std::string& script) {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << script;
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  ToolOutput run(const std::string& name, std::vector<std::string> arguments = {}, ToolLimits limits = {}) {
    return run_tool(folder_.string(), name, arguments, limits, {});
  }

  fs::path folder_;
};

TEST_F(ToolRunTest, ReadsStdoutAndPassesArgumentsAsTheyAre) {
  add_tool("tool", "printf '%s|' \"$@\"; echo noise >&2; printf '%s' \"$LC_ALL\"");
  const ToolOutput output = run("tool", {"a b", "$HOME", ";exit 3", ""});
  EXPECT_EQ(output.end, ToolEnd::kDone) << output.message;
  EXPECT_EQ(output.text, "a b|$HOME|;exit 3||C");
}

TEST_F(ToolRunTest, SecretsStayHere) {
  for (const char* name : {"QUERN_HOME", "QUERN_API_KEY", "HF_TOKEN", "OTHER_SECRET"}) setenv(name, "secret", 1);
  setenv("VENDOR_PATH", "kept", 1);
  add_tool("tool", "env");
  const ToolOutput output = run("tool");
  for (const char* name : {"QUERN_HOME", "QUERN_API_KEY", "HF_TOKEN", "OTHER_SECRET", "VENDOR_PATH"}) unsetenv(name);
  EXPECT_EQ(output.text.find("secret"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("VENDOR_PATH=kept"), std::string::npos);
}

TEST_F(ToolRunTest, AbsentIsAnAnswer) {
  const ToolOutput output = run("no-such-tool");
  EXPECT_EQ(output.end, ToolEnd::kAbsent);
  EXPECT_EQ(run_tool("", "tool", {}, {}, {}).end, ToolEnd::kAbsent);
  // A file that may not be executed, a folder, a relative path: none is a program.
  std::ofstream(folder_ / "plain") << "#!/bin/sh\n";
  fs::create_directory(folder_ / "folder");
  EXPECT_EQ(run("plain").end, ToolEnd::kAbsent);
  EXPECT_EQ(run("folder").end, ToolEnd::kAbsent);
  EXPECT_EQ(find_on_path(".:bin", "sh"), "");
}

TEST_F(ToolRunTest, FailureIsToldInItsOwnWords) {
  add_tool("tool", "echo; echo 'driver is not loaded' >&2; exit 9");
  ToolOutput output = run("tool");
  EXPECT_EQ(output.end, ToolEnd::kFailed);
  EXPECT_EQ(output.message, "tool: exit status 9: driver is not loaded");
  add_tool("killed", "kill -SEGV $$");
  output = run("killed");
  EXPECT_EQ(output.end, ToolEnd::kFailed);
  EXPECT_NE(output.message.find("ended by signal 11"), std::string::npos) << output.message;
  std::ofstream(folder_ / "broken") << "\x7f"
                                       "ELF no program";
  fs::permissions(folder_ / "broken", fs::perms::owner_all);
  output = run("broken");
  EXPECT_EQ(output.end, ToolEnd::kFailed);
  EXPECT_NE(output.message.find("cannot be started"), std::string::npos) << output.message;
}

TEST_F(ToolRunTest, HangingToolDiesWithItsChildren) {
  add_tool("tool", "sleep 1000 & echo $!; echo $$; wait");
  const auto begin = std::chrono::steady_clock::now();
  const ToolOutput output = run("tool", {}, {.time_max = milliseconds(300)});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(output.end, ToolEnd::kTimeout);
  EXPECT_EQ(output.message, "tool: no answer in 300 ms");
  pid_t child = 0, parent = 0;
  ASSERT_EQ(std::sscanf(output.text.c_str(), "%d\n%d", &child, &parent), 2) << output.text;
  const auto is_gone = [](pid_t pid) {
    // A zombie whose new parent has not looked yet is as good as gone.
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(stat, line);
    return line.empty() || line.find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 500 && !(is_gone(child) && is_gone(parent)); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(is_gone(child) && is_gone(parent));
}

TEST_F(ToolRunTest, ToolThatClosesItsOutputAndHangsIsKilled) {
  add_tool("tool", "exec >&- 2>&-; sleep 1000");
  EXPECT_EQ(run("tool", {}, {.time_max = milliseconds(300)}).end, ToolEnd::kTimeout);
}

TEST_F(ToolRunTest, ChildThatKeepsTheOutputOpenHoldsNobody) {
  add_tool("tool", "sleep 1000 & echo done");
  const ToolOutput output = run("tool", {}, {.time_max = std::chrono::seconds(60)});
  EXPECT_EQ(output.end, ToolEnd::kDone) << output.message;
  EXPECT_EQ(output.text, "done\n");
}

TEST_F(ToolRunTest, OutputIsBounded) {
  add_tool("tool", "exec yes");
  const ToolOutput output = run("tool", {}, {.bytes_max = 10000});
  EXPECT_EQ(output.end, ToolEnd::kTooMuch);
  EXPECT_EQ(output.text.size(), 10000u);
  EXPECT_EQ(output.message, "tool: wrote more than 10000 bytes");
  add_tool("loud", "yes | head -c 300000 >&2; echo fine");
  EXPECT_EQ(run("loud").end, ToolEnd::kDone);
}

TEST_F(ToolRunTest, LargeOutputComesWhole) {
  add_tool("tool", "yes | head -c 500000");
  EXPECT_EQ(run("tool").text.size(), 500000u);
}

TEST_F(ToolRunTest, StopEndsIt) {
  add_tool("tool", "sleep 1000");
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    source.request_stop();
  });
  EXPECT_EQ(run_tool(folder_.string(), "tool", {}, {.time_max = std::chrono::seconds(60)}, source.get_token()).end,
            ToolEnd::kCancelled);
}

// Servers block and ignore signals; a tool must not inherit that.
TEST_F(ToolRunTest, ChildHasDefaultSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto pipe_before = signal(SIGPIPE, SIG_IGN);
  add_tool("tool", "grep -E '^Sig(Blk|Ign):' /proc/self/status; ls /proc/self/fd | wc -l");
  const ToolOutput output = run("tool");
  signal(SIGPIPE, pipe_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_NE(output.text.find("SigBlk:\t0000000000000000"), std::string::npos) << output.text;
  // 32 and 33 are the C library's own.
  const size_t ignored = output.text.find("SigIgn:\t");
  ASSERT_NE(ignored, std::string::npos) << output.text;
  EXPECT_EQ(std::stoull(output.text.substr(ignored + 8), nullptr, 16) & ~(uint64_t{3} << 31), 0u) << output.text;
  EXPECT_NE(output.text.find("\n4\n"), std::string::npos) << output.text;  // 0, 1, 2 and the folder that ls reads
}

}  // namespace
}  // namespace quern
