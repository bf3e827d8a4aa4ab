#include "formats/safetensors/safetensors_file.h"

#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "formats/name_index.h"
#include "formats/printable.h"
#include "formats/safetensors/header.h"
#include "formats/safetensors/safetensors_parse.h"

namespace quern {

struct SafetensorsFile::Impl {
  std::vector<MappedFile> files;  // one per shard; none when parsed from bytes
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
  NameIndex index;

  void add(SafetensorsPart part) {
    for (TensorView& tensor : part.tensors) tensors.push_back(std::move(tensor));
    for (auto& [key, value] : part.metadata) metadata.insert_or_assign(key, std::move(value));
  }
  Status open_one(const std::filesystem::path& path);
  Status open_shards(const std::filesystem::path& index_path);
};

namespace {

namespace fs = std::filesystem;
constexpr size_t kIndexBytesMax = 64u << 20;

// What to open for a folder: model.safetensors, its index, or the only *.safetensors there is.
Result<fs::path> find_in_folder(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  fs::path only;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() != ".safetensors") continue;
    if (!only.empty()) return invalid_file(fmt::format("{}: several .safetensors files and no index", folder.string()));
    only = it->path();
  }
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  if (only.empty()) return not_found(fmt::format("{}: no .safetensors file", folder.string()));
  return only;
}

bool is_plain_file_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

using WeightMap = std::vector<std::pair<std::string, std::string>>;  // (tensor, shard)

Result<WeightMap> read_index(const fs::path& path) {
  QUERN_ASSIGN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kIndexBytesMax) {
    return invalid_file(fmt::format("{}: an index of {} bytes is over the limit of {}", path.string(),
                                    file.bytes().size(), kIndexBytesMax));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  QUERN_ASSIGN(WeightMap weight_map, parse_safetensors_index(text, path.string()));
  for (const auto& [tensor, shard] : weight_map) {
    if (!is_plain_file_name(shard)) {
      return invalid_file(fmt::format("{}: weight_map of {} names {}, not a .safetensors file of this folder",
                                      path.string(), printable(tensor), printable(shard)));
    }
  }
  return weight_map;
}

}  // namespace

Status SafetensorsFile::Impl::open_one(const fs::path& path) {
  QUERN_ASSIGN(MappedFile file, MappedFile::open(path));
  QUERN_ASSIGN(SafetensorsPart part, parse_safetensors_part(file.bytes(), path.string()));
  add(std::move(part));
  files.push_back(std::move(file));
  return {};
}

Status SafetensorsFile::Impl::open_shards(const fs::path& index_path) {
  QUERN_ASSIGN(const WeightMap weight_map, read_index(index_path));
  std::map<std::string_view, std::pair<size_t, size_t>> shards;  // name → its tensors, [first, last)
  for (const auto& [tensor, shard] : weight_map) shards.emplace(shard, std::pair<size_t, size_t>{});
  for (auto& [shard, range] : shards) {
    range.first = tensors.size();
    const Status opened = open_one(index_path.parent_path() / shard);
    if (!opened && opened.error().code == ErrorCode::kNotFound) {
      return invalid_file(fmt::format("{}: names {}, which does not exist", index_path.string(), printable(shard)));
    }
    QUERN_TRY(opened);
    range.second = tensors.size();
  }
  const NameIndex names(tensors);
  for (const auto& [name, shard] : weight_map) {
    const TensorView* tensor = names.find(name);
    const auto [first, last] = shards.at(shard);
    if (tensor == nullptr || tensor < tensors.data() + first || tensor >= tensors.data() + last) {
      return invalid_file(
          fmt::format("{}: tensor {} is not in {}", index_path.string(), printable(name), printable(shard)));
    }
  }
  return {};
}

SafetensorsFile::SafetensorsFile() : impl_(std::make_unique<Impl>()) {}
SafetensorsFile::~SafetensorsFile() = default;

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const fs::path& path) {
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    QUERN_ASSIGN(file, find_in_folder(path));
  }
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  Impl& impl = *result->impl_;
  QUERN_TRY(file.extension() == ".json" ? impl.open_shards(file) : impl.open_one(file));
  impl.index = NameIndex(impl.tensors);
  if (const TensorView* twice = impl.index.first_duplicate()) {
    return invalid_file(fmt::format("{}: two shards have a tensor named {}", file.string(), printable(twice->name)));
  }
  return result;
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                                                std::string_view name) {
  QUERN_ASSIGN(SafetensorsPart part, parse_safetensors_part(bytes, name));
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->impl_->add(std::move(part));
  result->impl_->index = NameIndex(result->impl_->tensors);
  return result;
}

std::span<const TensorView> SafetensorsFile::tensors() const {
  return impl_->tensors;
}
const TensorView* SafetensorsFile::find(std::string_view name) const {
  return impl_->index.find(name);
}
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->metadata;
}

}  // namespace quern
