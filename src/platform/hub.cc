#include "platform/hub.h"

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/status.h"
#include "formats/gguf/gguf_folder.h"
#include "platform/home.h"

namespace quern {
namespace {

constexpr size_t kFilesMax = 20000;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string url_escape(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '-' || c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// A path from a listing is bytes from outside: it must not lead out of the folder that files go to.
Result<std::string> checked_path(const Json& json, const char* key, const std::string& repository) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: the hub's listing has a file without a name", repository));
  }
  std::string path = json[key];
  if (!is_safe_relative_path(path)) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("{}: the hub's listing names a file outside the repository: {}", repository, path));
  }
  return path;
}

int64_t size_of(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_integer() && json[key] >= 0 ? json[key].get<int64_t>() : -1;
}

bool belongs_to_folder(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const bool top = path.find('/') == std::string::npos;
  if (path == "1_Pooling/config.json") return true;
  if (!top) return false;
  return name.ends_with(".json") || name.ends_with(".safetensors") || name.ends_with(".jinja") || name == "vocab.txt" ||
         name == "merges.txt" || name == "tokenizer.model";
}

}  // namespace

Result<RemoteRepository> list_hf(const std::string& repository, const std::string& revision) {
  RemoteRepository result;
  result.http.bearer_token = hf_token();
  const std::string url =
      fmt::format("{}/api/models/{}/revision/{}?blobs=true", hf_endpoint(), repository, url_escape(revision));
  QUERN_ASSIGN(const HttpDocument document, http_get(url, result.http));
  auto json = parse_json(document.body, url);
  if (!json) return make_error(ErrorCode::kUnavailable, json.error().message);
  const Json files = json->is_object() ? json->value("siblings", Json()) : Json();
  if (!files.is_array() || files.size() > kFilesMax) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: the answer has no list of files", url));
  }
  result.revision = json->contains("sha") && (*json)["sha"].is_string() ? (*json)["sha"].get<std::string>() : revision;
  if (!is_safe_relative_path(result.revision)) result.revision = revision;
  for (const Json& file : files) {
    QUERN_ASSIGN(std::string path, checked_path(file, "rfilename", repository));
    RemoteFile remote{.path = path, .url = "", .size = size_of(file, "size"), .sha256 = ""};
    remote.url =
        fmt::format("{}/{}/resolve/{}/{}", hf_endpoint(), repository, url_escape(result.revision), url_escape(path));
    if (file.contains("lfs") && file["lfs"].is_object()) {
      const Json& lfs = file["lfs"];
      if (lfs.contains("sha256") && lfs["sha256"].is_string()) remote.sha256 = lower(lfs["sha256"].get<std::string>());
    }
    if (!is_sha256(remote.sha256)) remote.sha256.clear();
    result.files.push_back(std::move(remote));
  }
  return result;
}

Result<RemoteRepository> list_modelscope(const std::string& repository, const std::string& revision) {
  RemoteRepository result;
  result.http.bearer_token = environment("MODELSCOPE_API_TOKEN").value_or("");
  const std::string wanted = revision == "main" ? "master" : revision;
  result.revision = wanted;
  const std::string url = fmt::format("{}/api/v1/models/{}/repo/files?Revision={}&Recursive=true",
                                      modelscope_endpoint(), repository, url_escape(wanted));
  QUERN_ASSIGN(const HttpDocument document, http_get(url, result.http));
  auto json = parse_json(document.body, url);
  if (!json) return make_error(ErrorCode::kUnavailable, json.error().message);
  const Json data = json->is_object() ? json->value("Data", Json()) : Json();
  const Json files = data.is_object() ? data.value("Files", Json()) : Json();
  if (!files.is_array() || files.size() > kFilesMax) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: the answer has no list of files", url));
  }
  for (const Json& file : files) {
    if (file.is_object() && file.contains("Type") && file["Type"] == "tree") continue;
    QUERN_ASSIGN(std::string path, checked_path(file, "Path", repository));
    RemoteFile remote{.path = path, .url = "", .size = size_of(file, "Size"), .sha256 = ""};
    remote.url = fmt::format("{}/models/{}/resolve/{}/{}", modelscope_endpoint(), repository, url_escape(wanted),
                             url_escape(path));
    if (file.contains("Sha256") && file["Sha256"].is_string()) remote.sha256 = lower(file["Sha256"].get<std::string>());
    if (!is_sha256(remote.sha256)) remote.sha256.clear();
    result.files.push_back(std::move(remote));
  }
  return result;
}

namespace {

// GGUF models by name and number of parts (1 for a whole file), parts in order.
using SetName = std::pair<std::string, int32_t>;
using Sets = std::map<SetName, std::vector<RemoteFile>>;

// "model.gguf" of any of its parts.
SetName set_name(const std::string& path) {
  const auto part = gguf_part_name(path);
  return part ? SetName(part->stem + ".gguf", part->num_parts) : SetName(path, 1);
}

Sets gguf_sets(const RemoteRepository& repository) {
  Sets sets;
  for (const RemoteFile& file : repository.files) {
    if (lower(file.path).ends_with(".gguf")) sets[set_name(file.path)].push_back(file);
  }
  for (auto& [name, files] : sets) {
    std::sort(files.begin(), files.end(), [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  }
  return sets;
}

std::string names_of(const Sets& sets) {
  std::string names;
  for (const auto& [name, files] : sets) names += (names.empty() ? "" : ", ") + name.first;
  return names;
}

// A set of which the repository has every part, once. `files` are sorted.
Result<std::vector<RemoteFile>> whole_set(const std::vector<RemoteFile>& files) {
  const auto name = gguf_part_name(files.front().path);
  if (!name) return files;
  const auto twice = std::ranges::adjacent_find(files, {}, &RemoteFile::path);
  if (twice != files.end()) {
    return make_error(ErrorCode::kUnavailable, fmt::format("the hub's listing has {} twice", twice->path));
  }
  for (int32_t part = 1; part <= name->num_parts; ++part) {
    const auto at = static_cast<size_t>(part - 1);
    if (at < files.size() && files[at].path == name->file_of(part)) continue;
    return not_found(fmt::format("the repository has no {}, which belongs to {}", name->file_of(part), files[0].path));
  }
  return files;
}

}  // namespace

Result<std::vector<RemoteFile>> choose_files(const RemoteRepository& repository, const std::string& wanted) {
  const Sets sets = gguf_sets(repository);
  std::vector<RemoteFile> chosen;
  if (wanted.empty()) {
    bool weights = false;
    for (const RemoteFile& file : repository.files) {
      if (!belongs_to_folder(file.path)) continue;
      weights |= file.path.ends_with(".safetensors");
      chosen.push_back(file);
    }
    if (weights) return chosen;
    if (sets.empty()) return not_found("the repository has neither safetensors nor GGUF files");
    if (sets.size() == 1) return whole_set(sets.begin()->second);
    return choose_files(repository, "Q4_K_M");
  }
  for (const RemoteFile& file : repository.files) {
    if (file.path != wanted) continue;
    const auto set = sets.find(set_name(wanted));
    return set != sets.end() ? whole_set(set->second) : std::vector<RemoteFile>{file};
  }
  const std::vector<RemoteFile>* match = nullptr;
  for (const auto& [name, files] : sets) {
    if (lower(name.first).find(lower(wanted)) == std::string::npos) continue;
    if (match != nullptr) return not_found(fmt::format("{} is in several names; there are {}", wanted, names_of(sets)));
    match = &files;
  }
  if (match == nullptr) return not_found(fmt::format("no file {}; there are {}", wanted, names_of(sets)));
  return whole_set(*match);
}

}  // namespace quern
