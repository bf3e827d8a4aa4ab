#include "platform/pypi.h"

#include <zip.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <regex>

#include "base/json.h"
#include "base/status.h"
#include "platform/home.h"
#include "platform/model_name.h"

namespace quern {
namespace {

constexpr int64_t kMembersMax = 100000;
constexpr int64_t kMemberBytesMax = int64_t{8} << 30;

// PEP 503: runs of - _ . become one -, lower case.
std::string normalised(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (separator && !out.empty() && out.back() == '-') continue;
    out += separator ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string resolve_url(const std::string& base, const std::string& link) {
  if (link.starts_with("http://") || link.starts_with("https://")) return link;
  const size_t host_end = base.find('/', base.find("//") + 2);
  const std::string origin = base.substr(0, host_end);
  if (link.starts_with("//")) return base.substr(0, base.find("//")) + link;
  if (link.starts_with('/')) return origin + link;
  std::string folder = host_end == std::string::npos ? origin + "/" : base.substr(0, base.find_last_of('/') + 1);
  std::string rest = link;
  while (rest.starts_with("../")) {
    rest.erase(0, 3);
    const size_t slash = folder.find_last_of('/', folder.size() - 2);
    if (slash != std::string::npos && slash >= origin.size()) folder.erase(slash + 1);
  }
  return folder + rest;
}

// NAME-VERSION-…whl → VERSION; empty when the name is not a wheel's.
std::string wheel_version(const std::string& filename) {
  if (!filename.ends_with(".whl")) return "";
  const size_t first = filename.find('-');
  const size_t second = filename.find('-', first + 1);
  if (first == std::string::npos || second == std::string::npos) return "";
  return filename.substr(first + 1, second - first - 1);
}

void add_wheel(std::vector<Wheel>& wheels, Wheel wheel) {
  wheel.version = wheel_version(wheel.filename);
  const bool hash_fits =
      wheel.sha256.size() == 64 && wheel.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hash_fits) wheel.sha256.clear();
  if (!wheel.version.empty()) wheels.push_back(std::move(wheel));
}

Result<std::vector<Wheel>> parse_json_index(const std::string& body, const std::string& url) {
  auto json = parse_json(body, url);
  if (!json) return make_error(ErrorCode::kUnavailable, json.error().message);
  std::vector<Wheel> wheels;
  const Json files = json->is_object() ? json->value("files", Json()) : Json();
  for (const Json& file : files.is_array() ? files : Json::array()) {
    if (!file.is_object() || !file.contains("filename") || !file["filename"].is_string() || !file.contains("url") ||
        !file["url"].is_string()) {
      continue;
    }
    Wheel wheel{.filename = file["filename"], .version = "", .url = resolve_url(url, file["url"]), .sha256 = ""};
    if (file.contains("hashes") && file["hashes"].is_object() && file["hashes"].contains("sha256") &&
        file["hashes"]["sha256"].is_string()) {
      wheel.sha256 = file["hashes"]["sha256"];
    }
    if (file.contains("size") && file["size"].is_number_integer() && file["size"] >= 0) wheel.size = file["size"];
    add_wheel(wheels, std::move(wheel));
  }
  return wheels;
}

std::vector<Wheel> parse_html_index(const std::string& body, const std::string& url) {
  static const std::regex kAnchor(R"re(<a\s[^>]*?href="([^"#]+)(?:#sha256=([0-9a-f]{64}))?[^"]*"[^>]*>([^<]+)</a>)re",
                                  std::regex::icase);
  std::vector<Wheel> wheels;
  for (auto match = std::sregex_iterator(body.begin(), body.end(), kAnchor); match != std::sregex_iterator(); ++match) {
    std::string name = (*match)[3];
    std::erase_if(name, [](unsigned char c) { return c <= ' '; });
    add_wheel(wheels, {.filename = name, .version = "", .url = resolve_url(url, (*match)[1]), .sha256 = (*match)[2]});
  }
  return wheels;
}

struct ZipCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using ZipArchive = std::unique_ptr<zip_t, ZipCloser>;

Result<ZipArchive> open_zip(const std::filesystem::path& path) {
  int code = 0;
  ZipArchive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) return invalid_file(fmt::format("{}: not a zip archive", path.string()));
  return archive;
}

}  // namespace

Result<std::vector<Wheel>> parse_wheel_index(const std::string& body, const std::string& content_type,
                                             const std::string& url) {
  if (content_type.find("json") != std::string::npos) return parse_json_index(body, url);
  return parse_html_index(body, url);
}

Result<Wheel> find_wheel(const std::string& package, const std::string& version) {
  HttpOptions options;
  options.headers = {
      "Accept: application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"};
  const std::string url = fmt::format("{}/{}/", pip_index_url(), normalised(package));
  QUERN_ASSIGN(const HttpDocument document, http_get(url, options));
  QUERN_ASSIGN(const std::vector<Wheel> wheels, parse_wheel_index(document.body, document.content_type, document.url));
  const Wheel* found = nullptr;
  for (const Wheel& wheel : wheels) {
    if (version.empty() || wheel.version == version) found = &wheel;
  }
  if (found == nullptr) return not_found(fmt::format("{}: the index has no wheel of version {}", package, version));
  return *found;
}

Result<std::vector<WheelMember>> wheel_members(const std::filesystem::path& wheel, const std::string& folder) {
  QUERN_ASSIGN(const ZipArchive archive, open_zip(wheel));
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > kMembersMax) return invalid_file(fmt::format("{}: {} members are over the limit", wheel.string(), count));
  std::vector<WheelMember> members;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &info) != 0) continue;
    const std::string path = info.name;
    if (path.ends_with('/') || (!folder.empty() && !path.starts_with(folder + "/"))) continue;
    if (!is_safe_relative_path(path)) {
      return invalid_file(fmt::format("{}: a member's name leads outside: {}", wheel.string(), path));
    }
    members.push_back({path, static_cast<int64_t>(info.size)});
  }
  return members;
}

Status append_wheel_member(const std::filesystem::path& wheel, const std::string& member,
                           const std::filesystem::path& target) {
  QUERN_ASSIGN(const ZipArchive archive, open_zip(wheel));
  zip_stat_t info;
  if (zip_stat(archive.get(), member.c_str(), 0, &info) != 0) {
    return not_found(fmt::format("{}: has no file {}", wheel.string(), member));
  }
  const auto size = static_cast<int64_t>(info.size);
  if (size > kMemberBytesMax)
    return invalid_file(fmt::format("{}: {} is too large: {} bytes", wheel.string(), member, size));
  const std::unique_ptr<zip_file_t, ZipCloser> source(zip_fopen(archive.get(), member.c_str(), 0));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(target.c_str(), "ab"), std::fclose);
  if (!source) return invalid_file(fmt::format("{}: cannot read {}", wheel.string(), member));
  if (!file) return io_error(fmt::format("{}: cannot write", target.string()));
  std::vector<char> buffer(1u << 20);
  int64_t left = size;
  while (left > 0) {
    const zip_int64_t n =
        zip_fread(source.get(), buffer.data(), std::min<int64_t>(left, static_cast<int64_t>(buffer.size())));
    if (n <= 0) return invalid_file(fmt::format("{}: {} is damaged", wheel.string(), member));
    if (std::fwrite(buffer.data(), 1, static_cast<size_t>(n), file.get()) != static_cast<size_t>(n)) {
      return io_error(fmt::format("{}: cannot write: is the disk full?", target.string()));
    }
    left -= n;
  }
  if (std::fflush(file.get()) != 0)
    return io_error(fmt::format("{}: cannot write: is the disk full?", target.string()));
  return {};
}

}  // namespace quern
