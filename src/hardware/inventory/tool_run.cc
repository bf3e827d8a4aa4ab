#include "hardware/inventory/tool_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

extern "C" char** environ;

namespace quern {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kComplaintMax = 512;                // of stderr, in the message
constexpr std::chrono::milliseconds kSlice{20};      // how soon the end of the process, or a stop, is seen
constexpr std::chrono::milliseconds kDeathMax{500};  // a killed process that is not gone by then waits in the kernel

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  void set(int value) {
    close();
    value_ = value;
  }
  void close() {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

 private:
  int value_ = -1;
};

struct Pipe {
  Descriptor read, write;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read.set(ends[0]);
    write.set(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return true;
  }
};

// Programs that were killed and are still there, by path.
class Undead {
 public:
  bool has(const std::string& program) {
    const std::lock_guard lock(mutex_);
    const auto found = pids_.find(program);
    if (found == pids_.end()) return false;
    if (::waitpid(found->second, nullptr, WNOHANG) == 0) return true;
    pids_.erase(found);
    return false;
  }
  void add(const std::string& program, pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_[program] = pid;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, pid_t> pids_;  // guarded by mutex_
};

Undead& undead() {
  static Undead instance;
  return instance;
}

// A vendor's program has no use for keys of ours and of hubs.
bool is_for_tools(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  if (name == "LC_ALL" || name.starts_with("QUERN_")) return false;
  for (const char* ending : {"_KEY", "_TOKEN", "_SECRET", "PASSWORD"}) {
    if (name.ends_with(ending)) return false;
  }
  return true;
}

std::vector<std::string> child_environment() {
  std::vector<std::string> result = {"LC_ALL=C"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (is_for_tools(*entry)) result.emplace_back(*entry);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// 0, or why not (errno).
int spawn(const std::string& program, std::vector<std::string> arguments, const Pipe& out, const Pipe& complaint,
          pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, complaint.write.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Servers block signals in all their threads and ignore SIGPIPE; a tool is to die as it would in a shell. Its own
  // group, so that what it starts dies with it.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  arguments.insert(arguments.begin(), program);
  std::vector<std::string> environment = child_environment();
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers(arguments).data(),
                                  pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// What there is to read now goes to `text`, as far as it fits. false: the other end is closed.
bool drain(int descriptor, std::string& text, size_t bytes_max, bool& overflow) {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    const size_t room = bytes_max - std::min(bytes_max, text.size());
    text.append(buffer.data(), std::min(room, static_cast<size_t>(got)));
    if (static_cast<size_t>(got) > room) overflow = true;
    if (overflow) return true;  // the rest is read, or not, by the next call
  }
}

// Not reaped: its number stays its own until bury().
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

struct Child {
  std::string program;
  pid_t pid = -1;
  Pipe out, complaint;
};

// How the process was when reading ended; nullopt: it ended by itself.
std::optional<ToolEnd> read_to_the_end(Child& child, const ToolLimits& limits, const std::stop_token& stop,
                                       std::string& text, std::string& said) {
  const auto deadline = Clock::now() + limits.time_max;
  pollfd polled[] = {{child.out.read.get(), POLLIN, 0}, {child.complaint.read.get(), POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return ToolEnd::kTimeout;
    if (stop.stop_requested()) return ToolEnd::kCancelled;
    ::poll(polled, std::size(polled), static_cast<int>(std::min(left, kSlice).count()));
    const bool ended = has_ended(child.pid);  // looked at before the pipes: nothing more comes after it
    bool overflow = false, ignored = false;
    if (polled[0].fd >= 0 && !drain(polled[0].fd, text, limits.bytes_max, overflow)) polled[0].fd = -1;
    if (polled[1].fd >= 0 && !drain(polled[1].fd, said, kComplaintMax, ignored)) polled[1].fd = -1;
    if (overflow) return ToolEnd::kTooMuch;
    if (ended) return std::nullopt;
  }
}

// Ends what is left of the process and its group. The exit status, or nullopt when the kernel does not let it go.
std::optional<int> bury(Child& child) {
  ::kill(-child.pid, SIGKILL);
  const auto deadline = Clock::now() + kDeathMax;
  while (Clock::now() < deadline) {
    int status = 0;
    if (::waitpid(child.pid, &status, WNOHANG) != 0) return status;
    ::poll(nullptr, 0, 5);
  }
  undead().add(child.program, child.pid);
  return std::nullopt;
}

std::string first_words(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  std::string line(text.substr(begin, std::min(text.find_first_of("\r\n", begin) - begin, size_t{200})));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return line;
}

std::string failure_message(const std::string& program, int status, std::string_view text, std::string_view said) {
  std::string words = first_words(said);
  if (words.empty()) words = first_words(text);
  const std::string how = WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                              : fmt::format("exit status {}", WEXITSTATUS(status));
  return words.empty() ? fmt::format("{}: {}", program, how) : fmt::format("{}: {}: {}", program, how, words);
}

}  // namespace

std::string find_on_path(std::string_view path, std::string_view name) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const fs::path folder = path.substr(begin, end - begin);
    std::error_code ignored;
    const fs::path program = folder / name;
    if (folder.is_absolute() && fs::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0) {
      return program.string();
    }
    begin = end + 1;
  }
  return "";
}

ToolOutput run_tool(std::string_view path, std::string_view name, std::span<const std::string> arguments,
                    const ToolLimits& limits, const std::stop_token& stop) {
  Child child{.program = find_on_path(path, name)};
  const std::string shown(name);
  if (child.program.empty()) return {.end = ToolEnd::kAbsent, .message = shown + ": is not on the path"};
  if (undead().has(child.program)) {
    return {.end = ToolEnd::kTimeout, .message = shown + ": an earlier run still hangs in the kernel"};
  }
  if (!child.out.open() || !child.complaint.open()) {
    return {.end = ToolEnd::kFailed, .message = fmt::format("{}: no pipe: {}", shown, std::strerror(errno))};
  }
  const int error = spawn(child.program, {arguments.begin(), arguments.end()}, child.out, child.complaint, child.pid);
  if (error != 0) {
    return {.end = ToolEnd::kFailed, .message = fmt::format("{}: cannot be started: {}", shown, std::strerror(error))};
  }
  child.out.write.close();
  child.complaint.write.close();
  ToolOutput output{.end = ToolEnd::kDone};
  std::string said;
  const auto stopped = read_to_the_end(child, limits, stop, output.text, said);
  const auto status = bury(child);
  if (stopped) {
    output.end = *stopped;
    output.message =
        *stopped == ToolEnd::kTimeout   ? fmt::format("{}: no answer in {} ms{}", shown, limits.time_max.count(),
                                                    status ? "" : ", and it cannot be killed")
        : *stopped == ToolEnd::kTooMuch ? fmt::format("{}: wrote more than {} bytes", shown, limits.bytes_max)
                                        : shown + ": stopped";
  } else if (!status || *status != 0) {
    output.end = ToolEnd::kFailed;
    output.message = failure_message(shown, status.value_or(0), output.text, said);
  }
  return output;
}

}  // namespace quern
