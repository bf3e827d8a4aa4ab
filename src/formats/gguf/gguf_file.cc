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

// Opens parts 1 … num_parts - 1 and appends their tensors.
Status open_other_parts(const std::filesystem::path& path, const SplitInfo& split, std::vector<MappedFile>& files,
                        std::vector<TensorView>& tensors) {
  const std::string first_name = path.filename().string();
  const std::string first_suffix = part_suffix(0, split.num_parts);
  if (split.part != 0) {
    return invalid_file(fmt::format("{}: part {} of {}; open part 1", path.string(), split.part + 1, split.num_parts));
  }
  if (!first_name.ends_with(first_suffix)) {
    return invalid_file(fmt::format("{}: part 1 of {} is not named …{}", path.string(), split.num_parts, first_suffix));
  }
  const std::string stem = first_name.substr(0, first_name.size() - first_suffix.size());
  for (int64_t part = 1; part < split.num_parts; ++part) {
    const auto part_path = path.parent_path() / (stem + part_suffix(part, split.num_parts));
    QUERN_ASSIGN(MappedFile file, MappedFile::open(part_path));
    QUERN_ASSIGN(GgufPart parsed, parse_gguf_part(file.bytes(), part_path.string()));
    QUERN_ASSIGN(const auto info, split_info(parsed.metadata, part_path.string()));
    if (!info || info->part != part || info->num_parts != split.num_parts || info->num_tensors != split.num_tensors) {
      return invalid_file(fmt::format("{}: its split.* keys do not say part {} of the {} of {}", part_path.string(),
                                      part + 1, split.num_parts, first_name));
    }
    for (TensorView& tensor : parsed.tensors) tensors.push_back(std::move(tensor));
    files.push_back(std::move(file));
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
  QUERN_ASSIGN(MappedFile file, MappedFile::open(path));
  QUERN_ASSIGN(GgufPart part, parse_gguf_part(file.bytes(), path.string()));
  QUERN_ASSIGN(const auto split, split_info(part.metadata, path.string()));

  std::unique_ptr<GgufFile> result(new GgufFile);
  Impl& impl = *result->impl_;
  impl.files.push_back(std::move(file));
  impl.version = part.version;
  impl.metadata = std::move(part.metadata);
  impl.tensors = std::move(part.tensors);
  if (split) {
    QUERN_TRY(open_other_parts(path, *split, impl.files, impl.tensors));
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
