#include "hardware/inventory/host.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "hardware/cpu_topology.h"
#include "hardware/inventory/tool_text.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCpusMax = 4096;
constexpr int64_t kKiB = 1024;

// What matrix kernels are written for.
constexpr std::array<std::string_view, 27> kInstructionSets = {
    "sse4_2",      "avx",         "f16c",        "fma",      "avx2",     "avx_vnni", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd",   "asimddp",  "fphp",
    "asimdhp",     "i8mm",        "bf16",        "sve",      "sve2",     "sme",      "neon",    "lsx",      "lasx"};

std::optional<int64_t> read_number(const fs::path& path) {
  const std::string text = read_kernel_file(path);
  const std::string_view digits = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// "MemTotal:       16384 kB" of a meminfo; those of a node begin with "Node 0 ".
int64_t kib_line(std::string_view text, std::string_view label) {
  return memory_bytes(value_after(text, label), kKiB).value_or(0);
}

std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> result;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && name.size() > prefix.size() &&
        std::ranges::all_of(name.substr(prefix.size()), [](char c) { return c >= '0' && c <= '9'; }) &&
        result.size() < kCpusMax) {
      result.push_back(entry->path());
    }
  }
  std::ranges::sort(result, [](const fs::path& a, const fs::path& b) {
    const std::string x = a.filename().string(), y = b.filename().string();
    return std::pair(x.size(), x) < std::pair(y.size(), y);
  });
  return result;
}

void count_processors(const fs::path& cpus, CpuInfo& cpu) {
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::map<std::tuple<int32_t, std::string, int64_t>, std::set<std::string>> caches;  // who shares each
  int32_t threads = 0;
  for (const fs::path& folder : entries(cpus, "cpu")) {
    const std::string socket(trimmed(read_kernel_file(folder / "topology/physical_package_id")));
    if (socket.empty()) continue;  // offline
    ++threads;
    sockets.insert(socket);
    cores.emplace(socket, trimmed(read_kernel_file(folder / "topology/core_id")));
    for (const fs::path& cache : entries(folder / "cache", "index")) {
      const auto level = read_number(cache / "level");
      const int64_t bytes = parse_cache_size(read_kernel_file(cache / "size"));
      if (!level || bytes == 0) continue;
      const std::string type = clean_name(read_kernel_file(cache / "type"));
      caches[{static_cast<int32_t>(*level), type, bytes}].insert(read_kernel_file(cache / "shared_cpu_list"));
    }
  }
  if (threads == 0) return;
  cpu.threads = threads;
  cpu.sockets = static_cast<int32_t>(sockets.size());
  cpu.cores = static_cast<int32_t>(cores.size());
  for (const auto& [key, sharers] : caches) {
    const auto& [level, type, bytes] = key;
    cpu.caches.push_back({level, type, bytes, static_cast<int32_t>(sharers.size())});
  }
}

std::vector<NumaNode> read_nodes(const fs::path& folder) {
  std::vector<NumaNode> nodes;
  for (const fs::path& node : entries(folder, "node")) {
    const auto id = small_index(node.filename().string().substr(4));
    if (!id) continue;
    const std::string memory = read_kernel_file(node / "meminfo");
    nodes.push_back({.id = *id,
                     .cpus = clean_name(read_kernel_file(node / "cpulist")),
                     .memory_total_bytes = kib_line(memory, "MemTotal:"),
                     .memory_free_bytes = kib_line(memory, "MemFree:")});
  }
  return nodes;
}

// The folders of this process's control group and of those around it, the innermost first. Inside a container the path
// is often the host's and not there: then the root, which is the container's own.
std::vector<fs::path> group_folders(const fs::path& root, std::string_view group) {
  std::vector<fs::path> folders;
  constexpr size_t kDepthMax = 32;
  fs::path relative = fs::path(std::string(group)).relative_path().lexically_normal();
  if (relative.string().starts_with("..")) relative.clear();
  for (; !relative.empty() && relative != "." && folders.size() < kDepthMax; relative = relative.parent_path()) {
    folders.push_back(root / relative);
  }
  folders.push_back(root);
  return folders;
}

struct Groups {
  std::vector<fs::path> unified, memory;  // of version 2; of version 1's memory controller
};

Groups read_groups(const HostRoots& roots) {
  Groups groups;
  const std::string text = read_kernel_file(roots.proc / "self/cgroup");
  const fs::path root = roots.sys / "fs/cgroup";
  for (const std::string_view line : split_lines(text)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) groups.unified = group_folders(root, path);
    const auto names = split_fields(controllers, ',');
    if (std::ranges::find(names, "memory") != names.end()) groups.memory = group_folders(root / "memory", path);
  }
  if (groups.unified.empty() && groups.memory.empty()) groups.unified = {root};
  return groups;
}

// Pages of files that nobody has touched for long count as used, but are given back when memory is short.
int64_t used_without_old_pages(int64_t used, std::string_view stat, std::string_view label) {
  for (const std::string_view line : split_lines(stat)) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == label)
      return std::max<int64_t>(0, used - memory_bytes(words[1], 1).value_or(0));
  }
  return used;
}

void add_limits(const HostRoots& roots, MemoryInfo& memory) {
  const auto consider = [&](const fs::path& folder, const char* limit_file, const char* used_file, const char* label) {
    const auto limit = read_number(folder / limit_file);  // "max" where there is none
    const auto used = read_number(folder / used_file);
    if (!limit || !used || *limit <= 0 || (memory.total_bytes > 0 && *limit >= memory.total_bytes)) return;
    const int64_t kept = used_without_old_pages(*used, read_kernel_file(folder / "memory.stat"), label);
    if (memory.limit_bytes && *memory.limit_bytes - *memory.limit_used_bytes <= *limit - kept) return;
    memory.limit_bytes = limit;
    memory.limit_used_bytes = kept;
  };
  const Groups groups = read_groups(roots);
  for (const fs::path& folder : groups.unified) consider(folder, "memory.max", "memory.current", "inactive_file");
  for (const fs::path& folder : groups.memory) {
    consider(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  }
}

std::optional<double> read_quota(const HostRoots& roots) {
  std::optional<double> least;
  for (const fs::path& folder : read_groups(roots).unified) {
    const auto quota = parse_cpu_max(trimmed(read_kernel_file(folder / "cpu.max")));
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

}  // namespace

std::string read_kernel_file(const fs::path& path) {
  constexpr std::streamsize kBytesMax = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (!file) return text;
  text.resize(kBytesMax);
  file.read(text.data(), kBytesMax);
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

int64_t parse_cache_size(std::string_view text) {
  return memory_bytes(text, 1).value_or(0);
}

std::vector<int32_t> parse_cpu_list(std::string_view text) {
  std::vector<int32_t> cpus;
  const auto number = [](std::string_view digits) -> std::optional<int32_t> {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
    return value;
  };
  for (const std::string_view range : split_fields(text, ',')) {
    const size_t dash = range.find('-');
    const auto first = number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= static_cast<int32_t>(kCpusMax)) return {};
    for (int32_t cpu = *first; cpu <= *last && cpus.size() < kCpusMax; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

int32_t count_cpu_list(std::string_view text) {
  return static_cast<int32_t>(parse_cpu_list(text).size());
}

CpuText parse_cpuinfo(std::string_view text) {
  CpuText result;
  std::set<std::string_view> flags;
  for (const std::string_view line : split_lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (key == "processor") ++result.threads;
    // x86 and s390; LoongArch; RISC-V and MIPS.
    const bool is_name = key == "model name" || key == "Model Name" || key == "uarch" || key == "cpu model";
    if (is_name && result.name.empty()) result.name = clean_name(value);
    if ((key == "flags" || key == "Features") && flags.empty()) {
      for (const std::string_view flag : split_words(value)) flags.insert(flag);
    }
  }
  if (result.name.empty()) {  // Arm names the designer and the part by numbers
    const std::string_view designer = value_after(text, "CPU implementer\t:"), part = value_after(text, "CPU part\t:");
    if (!part.empty()) result.name = clean_name("Arm designer " + std::string(designer) + " part " + std::string(part));
  }
  for (const std::string_view set : kInstructionSets) {
    if (flags.contains(set)) result.instruction_sets.emplace_back(set);
  }
  return result;
}

MemoryInfo parse_meminfo(std::string_view text) {
  return {.total_bytes = kib_line(text, "MemTotal:"),
          .available_bytes = kib_line(text, "MemAvailable:"),
          .swap_total_bytes = kib_line(text, "SwapTotal:"),
          .swap_free_bytes = kib_line(text, "SwapFree:")};
}

int64_t MemoryInfo::usable_total_bytes() const {
  return limit_bytes ? std::min(*limit_bytes, total_bytes) : total_bytes;
}

int64_t MemoryInfo::usable_available_bytes() const {
  if (!limit_bytes) return available_bytes;
  return std::min(available_bytes, std::max<int64_t>(0, *limit_bytes - limit_used_bytes.value_or(0)));
}

CpuInfo read_cpu(const HostRoots& roots) {
  const CpuText text = parse_cpuinfo(read_kernel_file(roots.proc / "cpuinfo"));
  CpuInfo cpu{.name = text.name, .instruction_sets = text.instruction_sets};
  utsname system{};
  if (::uname(&system) == 0) cpu.architecture = clean_name(system.machine);
  cpu.threads = cpu.cores = text.threads;
  cpu.sockets = text.threads > 0 ? 1 : 0;
  count_processors(roots.sys / "devices/system/cpu", cpu);
  const std::string status = read_kernel_file(roots.proc / "self/status");
  cpu.usable_threads = count_cpu_list(value_after(status, "Cpus_allowed_list:"));
  if (cpu.usable_threads == 0 || cpu.usable_threads > cpu.threads) cpu.usable_threads = cpu.threads;
  cpu.quota = read_quota(roots);
  cpu.load_average = leading_number(read_kernel_file(roots.proc / "loadavg")).value_or(0);
  cpu.numa = read_nodes(roots.sys / "devices/system/node");
  return cpu;
}

MemoryInfo read_memory(const HostRoots& roots) {
  MemoryInfo memory = parse_meminfo(read_kernel_file(roots.proc / "meminfo"));
  add_limits(roots, memory);
  return memory;
}

}  // namespace quern
