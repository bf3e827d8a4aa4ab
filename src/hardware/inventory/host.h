// The processors and the memory of this machine, and how much of them this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

// Where the kernel tells; tests have trees of their own.
struct HostRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

struct CpuCache {
  int32_t level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  int64_t bytes = 0;
  int32_t count = 0;  // of this size in the machine
};

struct NumaNode {
  int32_t id = 0;
  std::string cpus;  // as the kernel lists them: "0-15,32-47"
  int64_t memory_total_bytes = 0;
  int64_t memory_free_bytes = 0;
};

struct CpuInfo {
  std::string architecture;  // "x86_64"
  std::string name;
  std::vector<std::string> instruction_sets;  // in the kernel's words, those that kernels of ours or others ask for
  int32_t sockets = 0, cores = 0, threads = 0;
  int32_t usable_threads = 0;   // by the affinity of this process
  std::optional<double> quota;  // processors' worth of time, by control groups
  double load_average = 0;      // of one minute
  std::vector<CpuCache> caches;
  std::vector<NumaNode> numa;
};

struct MemoryInfo {
  int64_t total_bytes = 0;      // of the machine
  int64_t available_bytes = 0;  // that programs may take without swapping, by the kernel's estimate
  int64_t swap_total_bytes = 0, swap_free_bytes = 0;
  std::optional<int64_t> limit_bytes;  // the tightest of this process's control groups
  std::optional<int64_t> limit_used_bytes;

  int64_t usable_total_bytes() const;      // the machine's, or the limit
  int64_t usable_available_bytes() const;  // the machine's, or what the limit leaves
};

CpuInfo read_cpu(const HostRoots& roots);
MemoryInfo read_memory(const HostRoots& roots);

// Pure parts: text as the kernel writes it, or anything.
struct CpuText {
  std::string name;
  std::vector<std::string> instruction_sets;
  int32_t threads = 0;
};
CpuText parse_cpuinfo(std::string_view text);
MemoryInfo parse_meminfo(std::string_view text);
int32_t count_cpu_list(std::string_view text);               // "0-3,8" is 5; 0 for what is no list
std::vector<int32_t> parse_cpu_list(std::string_view text);  // at most 4096
int64_t parse_cache_size(std::string_view text);             // "32K"; 0 for what is none

// A file of /proc or /sys, at most 1 MiB of it; empty where it cannot be read.
std::string read_kernel_file(const std::filesystem::path& path);

}  // namespace quern
