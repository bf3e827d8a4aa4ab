#include "platform/catalog/engine_version.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "hardware/inventory/tool_run.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kVersionBytesMax = 64;

bool is_version(std::string_view text) {
  constexpr std::string_view allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-_()!, ";
  return !text.empty() && text.size() <= kVersionBytesMax && text.find_first_not_of(allowed) == std::string_view::npos;
}

// None of a folder that cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  return found;
}

// bin/vllm stands beside lib/python3.11/site-packages/vllm-0.32.0.dist-info.
std::string version_of_package(const std::string& package, const fs::path& program) {
  constexpr std::string_view kEnd = ".dist-info";
  for (const fs::path& python : entries(program.parent_path().parent_path() / "lib")) {
    if (!python.filename().string().starts_with("python")) continue;
    for (const char* folder : {"site-packages", "dist-packages"}) {
      for (const fs::path& entry : entries(python / folder)) {
        const std::string name = entry.filename();
        if (!name.starts_with(package + "-") || !name.ends_with(kEnd)) continue;
        return name.substr(package.size() + 1, name.size() - package.size() - 1 - kEnd.size());
      }
    }
  }
  return "";
}

// "version: 0.5.0-dev (build 1, commit 0c1e570)" in one of the lines.
std::string version_that_it_prints(const fs::path& program) {
  // It speaks on stderr; its path is an argument, not a word of the shell's.
  const std::vector<std::string> arguments = {"-c", "exec \"$0\" --version 2>&1", program.string()};
  const ToolOutput output = run_tool("/bin:/usr/bin", "sh", arguments, {}, {});
  const size_t begin = output.text.find("version: ");
  if (begin == std::string::npos) return "";
  const std::string line = output.text.substr(begin + 9, output.text.find('\n', begin) - begin - 9);
  return line;
}

std::string find_version(std::string_view engine, const std::string& program) {
  std::error_code ignored;
  if (engine == "llama.cpp") return version_that_it_prints(fs::absolute(program, ignored));
  const fs::path real = fs::canonical(program, ignored);
  for (const fs::path& path : {fs::path(program), real}) {
    if (path.empty()) continue;
    if (std::string version = version_of_package(std::string(engine), path); !version.empty()) return version;
  }
  return "";
}

}  // namespace

std::string engine_version(std::string_view engine, const std::string& program) {
  struct Known {
    fs::file_time_type written;
    std::string version;
  };
  static std::mutex mutex;
  static std::map<std::string, Known> known;
  std::error_code ignored;
  const auto written = fs::last_write_time(program, ignored);
  {
    const std::lock_guard lock(mutex);
    const auto it = known.find(program);
    if (it != known.end() && it->second.written == written) return it->second.version;
  }
  std::string version = find_version(engine, program);
  if (!is_version(version)) version.clear();
  const std::lock_guard lock(mutex);
  known[program] = {.written = written, .version = version};
  return version;
}

}  // namespace quern
