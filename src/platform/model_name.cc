#include "platform/model_name.h"

#include <algorithm>
#include <cctype>

#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kNameBytesMax = 512;

bool is_name_part(std::string_view part) {
  if (part.empty() || part.size() > 128 || part.front() == '.' || part.front() == '-') return false;
  for (const char c : part) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

Result<ModelName> parse_hub(ModelNameKind kind, std::string_view text, std::string_view whole) {
  ModelName name{.kind = kind, .name = "", .tag = "", .revision = "main"};
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_safe_relative_path(name.tag))
      return invalid_argument(fmt::format("{}: not a file name: {}", whole, name.tag));
  }
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!is_safe_relative_path(name.revision)) {
      return invalid_argument(fmt::format("{}: not a revision: {}", whole, name.revision));
    }
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || !is_name_part(text.substr(0, slash)) ||
      !is_name_part(text.substr(slash + 1))) {
    return invalid_argument(fmt::format("{}: not a repository name like org/repo", whole));
  }
  name.name = text;
  return name;
}

Result<ModelName> parse_pypi(std::string_view text, std::string_view whole) {
  ModelName name{.kind = ModelNameKind::kPypi, .name = "", .tag = "", .revision = ""};
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_safe_relative_path(name.tag))
      return invalid_argument(fmt::format("{}: not a file name: {}", whole, name.tag));
  }
  if (const size_t equals = text.find("=="); equals != std::string_view::npos) {
    name.revision = text.substr(equals + 2);
    text = text.substr(0, equals);
    if (!is_name_part(name.revision))
      return invalid_argument(fmt::format("{}: not a version: {}", whole, name.revision));
  }
  if (!is_name_part(text)) return invalid_argument(fmt::format("{}: not a package name", whole));
  name.name = text;
  return name;
}

bool is_loopback(const std::string& url) {
  for (const char* prefix : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    const std::string_view host(prefix);
    if (!url.starts_with(host)) continue;
    std::string_view rest = std::string_view(url).substr(host.size());
    // A port and nothing else: what looks like one may be a user's name and password in front of another host.
    if (rest.starts_with(':')) rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
    if (rest.empty() || rest.front() == '/' || rest.front() == '?') return true;
  }
  return false;
}

bool is_short_and_printable(std::string_view text) {
  return text.size() <= 1024 && std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

bool is_safe_relative_path(const std::string& path) {
  if (path.empty() || path.size() > kNameBytesMax) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) return false;
  }
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

bool is_allowed_url(const std::string& url) {
  return url.starts_with("https://") || (url.starts_with("http://") && is_loopback(url));
}

Result<ModelName> parse_model_name(const std::string& text) {
  if (text.empty()) return invalid_argument("MODEL is empty");
  if (text.size() > 4096 || text.find('\0') != std::string::npos) return invalid_argument("MODEL: not a name or path");
  const auto rest = [&](std::string_view prefix) { return std::string_view(text).substr(prefix.size()); };
  std::error_code ignored;
  const bool is_reference = text.starts_with("hf:") || text.starts_with("modelscope:") || text.starts_with("pypi:");
  const bool is_path = !is_reference && (text.find('/') != std::string::npos || text.ends_with(".gguf") ||
                                         std::filesystem::exists(text, ignored));
  // Names are quoted in messages of one line; a path is whatever the file system allows.
  if (!is_path && !is_short_and_printable(text)) return invalid_argument("MODEL: not a name or path");
  if (text.starts_with("hf:")) return parse_hub(ModelNameKind::kHf, rest("hf:"), text);
  if (text.starts_with("modelscope:")) return parse_hub(ModelNameKind::kModelScope, rest("modelscope:"), text);
  if (text.starts_with("pypi:")) return parse_pypi(rest("pypi:"), text);
  if (text.starts_with("https://") || text.starts_with("http://")) return ModelName{ModelNameKind::kUrl, text, "", ""};
  if (is_path) return ModelName{ModelNameKind::kPath, text, "", ""};
  ModelName name{.kind = ModelNameKind::kCatalog, .name = text, .tag = "", .revision = ""};
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    name.name = text.substr(0, colon);
    name.tag = text.substr(colon + 1);
  }
  if (!is_name_part(name.name) || (!name.tag.empty() && !is_name_part(name.tag))) {
    return invalid_argument(fmt::format("{}: not a model name", text));
  }
  return name;
}

}  // namespace quern
