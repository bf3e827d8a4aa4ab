#include "platform/fleet/worker_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

// glibc 2.36 has wrappers, older ones and some headers do not.
int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

constexpr auto kIdTypePidFd = static_cast<idtype_t>(3);  // P_PIDFD of waitid(2)

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// proc(5): the command stands in parentheses and may hold anything; the state is field 3.
struct ProcessStat {
  char state = 0;
  int64_t session = 0;
  int64_t start_time = 0;
};
std::optional<ProcessStat> process_stat(int64_t pid) {
  const std::string text = read_file(fmt::format("/proc/{}/stat", pid));
  const size_t close = text.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(close + 1));
  ProcessStat stat;
  std::string skipped;
  fields >> stat.state;
  for (int field = 4; field <= 22; ++field) {
    if (field == 6) {
      fields >> stat.session;
    } else if (field == 22) {
      fields >> stat.start_time;
    } else {
      fields >> skipped;
    }
  }
  if (!fields) return std::nullopt;
  return stat;
}

// Processes that the kernel has killed for memory since the machine started.
int64_t oom_kills() {
  std::ifstream file("/proc/vmstat");
  for (std::string key; file >> key;) {
    int64_t value = 0;
    if (!(file >> value)) break;
    if (key == "oom_kill") return value;
  }
  return 0;
}

template <class Visit>
void for_each_process(const Visit& visit) {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return;
  while (const dirent* entry = ::readdir(folder)) {
    int64_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr == end && pid > 0) visit(pid);
  }
  ::closedir(folder);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawn(3) with its two objects released.
int spawn(const ProcessSpec& spec, pid_t& pid) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&files);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, spec.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  const std::vector<char*> argv = pointers_to(spec.argv), environment = pointers_to(spec.environment);
  const int error = ::posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

int64_t process_start_time(int64_t pid) {
  const auto stat = process_stat(pid);
  return !stat || stat->state == 'Z' || stat->state == 'X' ? 0 : stat->start_time;
}

int64_t process_session(int64_t pid) {
  const auto stat = process_stat(pid);
  return stat ? stat->session : 0;
}

Result<WorkerProcess> WorkerProcess::start(const ProcessSpec& spec) {
  WorkerProcess process;
  process.oom_kills_before_ = oom_kills();
  pid_t pid = 0;
  if (const int error = spawn(spec, pid); error != 0) {
    return io_error(fmt::format("{}: cannot start: {}", spec.argv[0], std::strerror(error)));
  }
  // Not reaped yet, so it has a /proc entry even if it has ended.
  const auto stat = process_stat(pid);
  process.id_ = {.pid = pid, .start_time = stat ? stat->start_time : 0};
  process.fd_ = pidfd_open(pid);
  if (process.fd_ < 0) {
    const std::string why = std::strerror(errno);
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    process.id_ = {};
    return io_error(fmt::format("{}: cannot watch process {}: {}", spec.argv[0], pid, why));
  }
  return process;
}

Result<WorkerProcess> WorkerProcess::adopt(ProcessId id) {
  WorkerProcess process;
  process.oom_kills_before_ = oom_kills();
  process.fd_ = id.pid > 1 ? pidfd_open(static_cast<pid_t>(id.pid)) : -1;
  // Compared after it is held by its file: from here on the number cannot come to mean another.
  if (process.fd_ < 0 || id.start_time == 0 || process_start_time(id.pid) != id.start_time) {
    return not_found(fmt::format("process {} is gone", id.pid));
  }
  process.id_ = id;
  return process;
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept {
  *this = std::move(other);
}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  id_ = std::exchange(other.id_, {});
  fd_ = std::exchange(other.fd_, -1);
  was_killed_ = other.was_killed_;
  oom_kills_before_ = other.oom_kills_before_;
  return *this;
}

WorkerProcess::~WorkerProcess() {
  if (fd_ >= 0) ::close(fd_);
}

void WorkerProcess::terminate() {
  ::syscall(SYS_pidfd_send_signal, fd_, SIGTERM, nullptr, 0);
}

void WorkerProcess::kill_group() {
  was_killed_ = true;
  // Its own number cannot be another's while the process is there, and its group has that number.
  if (::syscall(SYS_pidfd_send_signal, fd_, SIGKILL, nullptr, 0) == 0) ::kill(static_cast<pid_t>(-id_.pid), SIGKILL);
}

std::optional<WorkerProcess::End> WorkerProcess::poll_end() {
  siginfo_t info{};
  End end;
  const auto group = static_cast<pid_t>(-id_.pid);
  const bool is_child = ::waitid(kIdTypePidFd, static_cast<id_t>(fd_), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (is_child && info.si_pid == 0) return std::nullopt;
  if (!is_child && process_start_time(id_.pid) == id_.start_time) return std::nullopt;
  // A child is reaped last: until then nobody else can have its number.
  ::kill(group, SIGKILL);
  if (is_child) ::waitid(kIdTypePidFd, static_cast<id_t>(fd_), &info, WEXITED | WNOHANG);
  if (!is_child) {
    end.text = was_killed_ ? "killed" : "ended; how is known to its first parent alone";
  } else if (info.si_code == CLD_EXITED) {
    end.exit_code = info.si_status;
    end.text = fmt::format("exit code {}", info.si_status);
  } else {
    end.signal = info.si_status;
    end.out_of_memory = info.si_status == SIGKILL && !was_killed_ && oom_kills() > oom_kills_before_;
    end.text = end.out_of_memory ? "killed by the system: out of memory"
                                 : fmt::format("signal {} ({})", info.si_status, ::sigdescr_np(info.si_status));
  }
  return end;
}

ProcessMemory process_memory(int64_t pid) {
  ProcessMemory memory;
  const auto add = [&](int64_t each) {
    std::ifstream file(fmt::format("/proc/{}/status", each));
    for (std::string line; std::getline(file, line);) {
      int64_t kib = 0;
      const auto value = [&](size_t prefix) {
        std::istringstream(line.substr(prefix)) >> kib;
        return kib * 1024;
      };
      if (line.starts_with("VmRSS:")) memory.resident += value(6);
      if (line.starts_with("RssAnon:")) memory.own += value(8);
    }
  };
  add(pid);
  // Children, if there are any, are found without reading all of /proc.
  const std::string children = read_file(fmt::format("/proc/{}/task/{}/children", pid, pid));
  std::istringstream list(children);
  for (int64_t child = 0; list >> child;) {
    const ProcessMemory more = process_memory(child);
    memory.resident += more.resident;
    memory.own += more.own;
  }
  return memory;
}

std::vector<MarkedProcess> find_marked_processes(const std::string& name, const std::string& begins_with) {
  std::vector<MarkedProcess> found;
  const std::string wanted = name + "=" + begins_with;
  for_each_process([&](int64_t pid) {
    // Of another user's it cannot be read.
    const std::string environment = read_file(fmt::format("/proc/{}/environ", pid));
    for (size_t begin = 0; begin < environment.size();) {
      const size_t end = std::min(environment.find('\0', begin), environment.size());
      const std::string_view pair = std::string_view(environment).substr(begin, end - begin);
      const int64_t start_time = pair.starts_with(wanted) ? process_start_time(pid) : 0;
      if (start_time != 0) {
        found.push_back({{pid, start_time}, process_session(pid), std::string(pair.substr(name.size() + 1))});
        break;
      }
      begin = end + 1;
    }
  });
  return found;
}

void bound_log(const fs::path& file, int64_t bytes_max) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0 || info.st_size <= bytes_max) return;
  std::error_code ignored;
  // Copied and cut rather than renamed: its writer keeps the file open, and appends.
  fs::copy_file(file, file.string() + ".1", fs::copy_options::overwrite_existing, ignored);
  if (::truncate(file.c_str(), 0) != 0) return;
}

}  // namespace quern
