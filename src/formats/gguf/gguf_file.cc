#include "formats/gguf/gguf_file.h"

#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "formats/gguf/gguf_parse.h"
#include "formats/name_index.h"
#include "formats/printable.h"

namespace quern {

struct GgufFile::Impl {
  std::vector<MappedFile> files;  // one per part; none when parsed from bytes
  uint32_t version = 0;
  uint32_t num_parts = 1;
  GgufMetadata metadata;
  std::vector<TensorView> tensors;
  NameIndex index;
};

namespace {

// split.* of one part; parts count from 0.
struct SplitInfo {
  int64_t part = 0;
  int64_t num_parts = 1;
  int64_t num_tensors = 0;
};

// nullopt for a file that is whole.
Result<std::optional<SplitInfo>> split_info(const GgufMetadata& metadata, std::string_view name) {
  if (metadata.find("split.count") == nullptr) return std::nullopt;
  const auto num_parts = metadata.get_int("split.count");
  if (!num_parts) return invalid_file(fmt::format("{}: {}", name, num_parts.error().message));
  if (*num_parts <= 1) return std::nullopt;
  const auto part = metadata.get_int("split.no");
  if (!part) return invalid_file(fmt::format("{}: {}", name, part.error().message));
  const auto num_tensors = metadata.get_int("split.tensors.count");
  if (!num_tensors) return invalid_file(fmt::format("{}: {}", name, num_tensors.error().message));
  if (*part < 0 || *part >= *num_parts)
    return invalid_file(fmt::format("{}: split.no is {} of {} parts", name, *part, *num_parts));
  return SplitInfo{*part, *num_parts, *num_tensors};
}

std::string part_suffix(int64_t part, int64_t num_parts) {
  return fmt::format("-{:05}-of-{:05}.gguf", part + 1, num_parts);
}

struct OpenedPart {
  MappedFile file;
  GgufPart parsed;
  std::optional<SplitInfo> split;
};

Result<OpenedPart> open_part(const std::filesystem::path& path) {
  QUERN_ASSIGN(MappedFile file, MappedFile::open(path));
  QUERN_ASSIGN(GgufPart parsed, parse_gguf_part(file.bytes(), path.string()));
  QUERN_ASSIGN(const auto split, split_info(parsed.metadata, path.string()));
  return OpenedPart{std::move(file), std::move(parsed), split};
}

// Where another part of the set lies that `path`, which is split.part of it, belongs to.
Result<std::filesystem::path> part_path_of(const std::filesystem::path& path, const SplitInfo& split, int64_t part) {
  const std::string name = path.filename().string();
  const std::string suffix = part_suffix(split.part, split.num_parts);
  if (!name.ends_with(suffix)) {
    return invalid_file(
        fmt::format("{}: holds part {} of {} but is not named …{}; parts are opened as they are, side by "
                    "side, not joined into one file",
                    path.string(), split.part + 1, split.num_parts, suffix));
  }
  const std::string stem = name.substr(0, name.size() - suffix.size());
  return path.parent_path() / (stem + part_suffix(part, split.num_parts));
}

Status check_belongs(const OpenedPart& opened, const std::filesystem::path& path, const SplitInfo& set, int64_t part) {
  const auto& info = opened.split;
  if (info && info->part == part && info->num_parts == set.num_parts && info->num_tensors == set.num_tensors) return {};
  return invalid_file(fmt::format("{}: its split.* keys do not say part {} of {} with {} tensors", path.string(),
                                  part + 1, set.num_parts, set.num_tensors));
}

// Part 1 of the set that `path` belongs to, or the whole file that it is.
Result<std::pair<std::filesystem::path, OpenedPart>> open_first(const std::filesystem::path& path) {
  QUERN_ASSIGN(OpenedPart opened, open_part(path));
  if (!opened.split || opened.split->part == 0) return std::pair(path, std::move(opened));
  QUERN_ASSIGN(const auto first_path, part_path_of(path, *opened.split, 0));
  QUERN_ASSIGN(OpenedPart first, open_part(first_path));
  QUERN_TRY(check_belongs(first, first_path, *opened.split, 0));
  return std::pair(first_path, std::move(first));
}

// Opens parts 1 … num_parts - 1 and appends their tensors.
Status open_other_parts(const std::filesystem::path& path, const SplitInfo& split, std::vector<MappedFile>& files,
                        std::vector<TensorView>& tensors) {
  for (int64_t part = 1; part < split.num_parts; ++part) {
    QUERN_ASSIGN(const auto part_path, part_path_of(path, split, part));
    QUERN_ASSIGN(OpenedPart opened, open_part(part_path));
    QUERN_TRY(check_belongs(opened, part_path, split, part));
    for (TensorView& tensor : opened.parsed.tensors) tensors.push_back(std::move(tensor));
    files.push_back(std::move(opened.file));
  }
  if (static_cast<int64_t>(tensors.size()) != split.num_tensors) {
    return invalid_file(fmt::format("{}: the parts have {} tensors, split.tensors.count is {}", path.string(),
                                    tensors.size(), split.num_tensors));
  }
  return {};
}

}  // namespace

GgufFile::GgufFile() : impl_(std::make_unique<Impl>()) {}
GgufFile::~GgufFile() = default;

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  QUERN_ASSIGN(auto opened, open_first(path));
  auto& [first_path, first] = opened;
  std::unique_ptr<GgufFile> result(new GgufFile);
  Impl& impl = *result->impl_;
  impl.files.push_back(std::move(first.file));
  impl.version = first.parsed.version;
  impl.metadata = std::move(first.parsed.metadata);
  impl.tensors = std::move(first.parsed.tensors);
  if (first.split) {
    QUERN_TRY(open_other_parts(first_path, *first.split, impl.files, impl.tensors));
    impl.num_parts = static_cast<uint32_t>(impl.files.size());
  }
  impl.index = NameIndex(impl.tensors);
  if (const TensorView* twice = impl.index.first_duplicate()) {
    return invalid_file(fmt::format("{}: two parts have a tensor named {}", path.string(), printable(twice->name)));
  }
  return result;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, std::string_view name) {
  QUERN_ASSIGN(GgufPart part, parse_gguf_part(bytes, name));
  QUERN_ASSIGN(const auto split, split_info(part.metadata, name));
  if (split)
    return invalid_file(
        fmt::format("{}: part {} of {}; the others are not at hand", name, split->part + 1, split->num_parts));

  std::unique_ptr<GgufFile> result(new GgufFile);
  Impl& impl = *result->impl_;
  impl.version = part.version;
  impl.metadata = std::move(part.metadata);
  impl.tensors = std::move(part.tensors);
  impl.index = NameIndex(impl.tensors);
  return result;
}

std::span<const TensorView> GgufFile::tensors() const {
  return impl_->tensors;
}
const TensorView* GgufFile::find(std::string_view name) const {
  return impl_->index.find(name);
}
uint32_t GgufFile::version() const {
  return impl_->version;
}
uint32_t GgufFile::num_parts() const {
  return impl_->num_parts;
}
const GgufMetadata& GgufFile::metadata() const {
  return impl_->metadata;
}

}  // namespace quern
