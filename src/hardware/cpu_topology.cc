#include "hardware/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "hardware/thread_pool.h"

namespace quern {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> affinity() {
  // The kernel refuses a mask smaller than its own, so the mask grows until it is accepted.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    std::vector<int> allowed;
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; ok && cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) allowed.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok) return allowed;
  }
  return {0};
}

// The tightest quota on the path from this process's group to the root, in processors, rounded; never below 1.
int32_t quota() {
  std::ifstream membership("/proc/self/cgroup");
  std::string line, group;
  while (std::getline(membership, line)) {
    if (line.starts_with("0::/")) group = line.substr(4);
  }
  const std::filesystem::path root = "/sys/fs/cgroup";
  double least = std::numeric_limits<int32_t>::max();
  for (std::filesystem::path folder = (root / group).lexically_normal();; folder = folder.parent_path()) {
    least = std::min(least, parse_cpu_max(first_line(folder / "cpu.max")).value_or(least));
    if (folder == root || !folder.has_relative_path()) break;
  }
  return std::max(1, static_cast<int32_t>(std::lround(least)));
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view text) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value <= 0) return std::nullopt;
    return value;
  };
  const auto limit = number(line.substr(0, space)), period = number(line.substr(space + 1));
  if (!limit || !period) return std::nullopt;
  return static_cast<double>(*limit) / static_cast<double>(*period);
}

int32_t usable_cpus() {
  return std::clamp(static_cast<int32_t>(affinity().size()), 1, quota());
}

int32_t usable_cores() {
  std::set<std::string> cores;
  for (int cpu : affinity()) {
    const std::string id = std::to_string(cpu);
    std::string siblings = first_line("/sys/devices/system/cpu/cpu" + id + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? id : std::move(siblings));
  }
  return std::clamp(static_cast<int32_t>(cores.size()), 1, quota());
}

}  // namespace quern
