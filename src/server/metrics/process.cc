#include "server/metrics/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "fmt/format.h"

namespace quern {
namespace {

const auto kStart = std::chrono::system_clock::now();

// "VmRSS:   123 kB" of /proc/self/status, in bytes; 0 where there is no such line.
int64_t status_bytes(const std::string& text, const char* name) {
  const size_t at = text.find(name);
  if (at == std::string::npos) return 0;
  long long kilobytes = 0;
  return std::sscanf(text.c_str() + at + std::string_view(name).size(), "%lld", &kilobytes) == 1 ? kilobytes * 1024 : 0;
}

int64_t open_files() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // ".", ".." and the folder itself
}

void line(std::string& out, const char* name, const char* type, const char* help, double value) {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

}  // namespace

void render_process(std::string& out) {
  std::ifstream file("/proc/self/status");
  const std::string status((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = [&](const char* name) { return static_cast<double>(status_bytes(status, name)); };
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  line(out, "process_resident_memory_bytes", "gauge", "Resident memory.", bytes("VmRSS:"));
  line(out, "process_anonymous_memory_bytes", "gauge", "Resident and swapped memory that no file backs.",
       bytes("RssAnon:") + bytes("VmSwap:"));
  line(out, "process_virtual_memory_bytes", "gauge", "Address space.", bytes("VmSize:"));
  line(out, "process_open_fds", "gauge", "Open files and sockets.", static_cast<double>(open_files()));
  line(out, "process_cpu_seconds_total", "counter", "Processor time.", cpu);
  line(out, "process_start_time_seconds", "gauge", "Start, in seconds since 1970.",
       std::chrono::duration<double>(kStart.time_since_epoch()).count());
}

}  // namespace quern
