#include "platform/home.h"

#include <cstdlib>
#include <fstream>
#include <vector>

namespace quern {
namespace {

namespace fs = std::filesystem;

fs::path cache_home() {
  if (const auto cache = environment("XDG_CACHE_HOME")) return *cache;
  return fs::path(environment("HOME").value_or("/root")) / ".cache";
}

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

std::string trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

// `index-url` of section [global] or [install] in one of pip's INI files.
std::optional<std::string> index_url_in(const fs::path& path) {
  std::ifstream file(path);
  std::string line, section;
  std::optional<std::string> found;
  while (std::getline(file, line)) {
    line = trimmed(line);
    if (line.starts_with('[') && line.ends_with(']')) section = line.substr(1, line.size() - 2);
    const size_t equals = line.find('=');
    if (equals == std::string::npos || (section != "global" && section != "install")) continue;
    const std::string key = trimmed(line.substr(0, equals));
    if (key == "index-url" || key == "index_url") found = trimmed(line.substr(equals + 1));
  }
  return found;
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

fs::path quern_home() {
  if (const auto home = environment("QUERN_HOME")) return *home;
  return cache_home() / "quern";
}

fs::path hf_home() {
  if (const auto home = environment("HF_HOME")) return *home;
  return cache_home() / "huggingface";
}

std::string hf_token() {
  if (const auto token = environment("HF_TOKEN")) return *token;
  std::ifstream file(hf_home() / "token");
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

std::string hf_endpoint() {
  return without_slash(environment("HF_ENDPOINT").value_or("https://huggingface.co"));
}

std::string modelscope_endpoint() {
  return without_slash(environment("MODELSCOPE_ENDPOINT").value_or("https://modelscope.cn"));
}

std::string pip_index_url() {
  if (const auto url = environment("PIP_INDEX_URL")) return without_slash(*url);
  std::vector<fs::path> files;  // the strongest first, as pip orders them
  if (const auto file = environment("PIP_CONFIG_FILE")) files.push_back(*file);
  const fs::path home = environment("HOME").value_or("/root");
  files.push_back(fs::path(environment("XDG_CONFIG_HOME").value_or((home / ".config").string())) / "pip/pip.conf");
  files.push_back(home / ".pip/pip.conf");
  files.push_back("/etc/xdg/pip/pip.conf");
  files.push_back("/etc/pip.conf");
  for (const fs::path& file : files) {
    if (auto url = index_url_in(file)) return without_slash(*url);
  }
  return "https://pypi.org/simple";
}

}  // namespace quern
