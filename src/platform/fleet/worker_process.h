// A worker's process on this machine: started, adopted, watched and stopped. Linux: pidfd_open(2), proc(5).
//
// A worker leads a session and process group of its own and outlives this process. It is known again by its number and
// the time it started, which together name one process until the machine restarts. Not thread-safe; one thread has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quern/status.h"

namespace quern {

struct ProcessId {
  int64_t pid = 0;
  int64_t start_time = 0;  // clock ticks since the machine started: field 22 of /proc/PID/stat
};

struct ProcessSpec {
  std::vector<std::string> argv;  // argv[0]: a path
  std::vector<std::string> environment;
  std::filesystem::path log_file;  // of stdout and stderr, appended
};

class WorkerProcess {
 public:
  // stdin reads nothing, no other file is inherited, no signal is blocked or ignored. Errors: kIo, with the program.
  static Result<WorkerProcess> start(const ProcessSpec& spec);
  // A process that another has started. kNotFound when it is gone, or is another one by now.
  static Result<WorkerProcess> adopt(ProcessId id);

  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess();  // leaves it running

  ProcessId id() const { return id_; }
  int fd() const { return fd_; }  // readable once it has ended

  // To it alone; what it has started is its business.
  void terminate();
  // SIGKILL to its whole group.
  void kill_group();

  // How it ended, in words ("exit code 2", "signal 9 (Killed)"); nullopt while it runs. What is left of its group is
  // killed. Call until it tells.
  struct End {
    std::optional<int> exit_code;
    std::optional<int> signal;
    bool out_of_memory = false;  // the kernel has killed a process for memory meanwhile, and this one by SIGKILL
    std::string text;
  };
  std::optional<End> poll_end();

 private:
  WorkerProcess() = default;

  ProcessId id_;
  int fd_ = -1;
  bool was_killed_ = false;  // by us
  int64_t oom_kills_before_ = 0;
};

// 0 when there is no such process, or it has ended and nobody has asked how.
int64_t process_start_time(int64_t pid);
int64_t process_session(int64_t pid);  // 0 likewise

struct ProcessMemory {
  int64_t resident = 0;  // bytes, files that are mapped included
  int64_t own = 0;       // without them: what is free once it ends
};
// Of the process and all others of its session (a worker's own children).
ProcessMemory process_memory(int64_t pid);

// Processes of this user whose environment has NAME=value with a value that begins so; with the value.
struct MarkedProcess {
  ProcessId id;
  int64_t session = 0;  // the number of the worker that it belongs to
  std::string value;
};
std::vector<MarkedProcess> find_marked_processes(const std::string& name, const std::string& begins_with);

// Keeps a log that others append to below `bytes_max`: what is over goes to `file`.1, replacing the one before.
void bound_log(const std::filesystem::path& file, int64_t bytes_max);

}  // namespace quern
