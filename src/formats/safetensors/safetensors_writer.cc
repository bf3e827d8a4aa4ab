#include "formats/safetensors/safetensors_writer.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/status.h"
#include "formats/checked_shape.h"
#include "formats/name_index.h"
#include "formats/part_file.h"
#include "formats/printable.h"
#include "formats/safetensors/header.h"

namespace quern {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";

// A tensor's place in the order it was given, and its size.
struct Planned {
  size_t index = 0;
  uint64_t bytes = 0;
};

Result<uint64_t> checked_size(const TensorView& tensor) {
  const std::string what = fmt::format("tensor {}", printable(tensor.name));
  const DTypeInfo& info = dtype_info(tensor.dtype);
  if (info.safetensors.empty()) return invalid_argument(fmt::format("{}: safetensors has no {}", what, info.name));
  if (tensor.name == kMetadataName) return invalid_argument(fmt::format("{}: the name is reserved", what));
  if (tensor.shape.size() > kMaxDims)
    return invalid_argument(fmt::format("{}: more than {} dimensions", what, kMaxDims));
  const auto bytes = checked_bytes(tensor.dtype, tensor.shape, what);
  if (!bytes) return invalid_argument(bytes.error().message);
  return *bytes;
}

// The order of the file. Wide elements first: the data begins at a multiple of 8, so every tensor is then aligned to
// its element.
Result<std::vector<Planned>> plan(std::span<const TensorView> tensors) {
  std::vector<Planned> planned;
  for (size_t i = 0; i < tensors.size(); ++i) {
    QUERN_ASSIGN(const uint64_t bytes, checked_size(tensors[i]));
    planned.push_back({i, bytes});
  }
  if (const TensorView* twice = NameIndex(tensors).first_duplicate()) {
    return invalid_argument(fmt::format("two tensors are named {}", printable(twice->name)));
  }
  const auto element_bytes = [&](const Planned& tensor) { return dtype_info(tensors[tensor.index].dtype).block_bytes; };
  std::ranges::stable_sort(planned, std::greater(), element_bytes);
  return planned;
}

// A JSON string. Errors: kInvalidArgument when `text` is not UTF-8.
Result<std::string> json_string(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    return invalid_argument(fmt::format("{} is not UTF-8", printable(text)));
  }
}

Result<std::string> make_header(std::span<const TensorView> tensors, std::span<const Planned> planned,
                                const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  const auto separate = [&header] {
    if (header.back() != '{') header += ',';
  };
  if (!metadata.empty()) {
    header += fmt::format("\"{}\":{{", kMetadataName);
    for (const auto& [key, value] : metadata) {
      QUERN_ASSIGN(const std::string quoted_key, json_string(key));
      QUERN_ASSIGN(const std::string quoted_value, json_string(value));
      separate();
      header += quoted_key + ":" + quoted_value;
    }
    header += '}';
  }
  uint64_t offset = 0;
  for (const auto& [index, bytes] : planned) {
    const TensorView& tensor = tensors[index];
    QUERN_ASSIGN(const std::string name, json_string(tensor.name));
    separate();
    header += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                          dtype_info(tensor.dtype).safetensors, fmt::join(tensor.shape, ","), offset, offset + bytes);
    offset += bytes;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kSafetensorsHeaderBytesMax)
    return invalid_argument(
        fmt::format("a header of {} bytes is over the limit of {}", header.size(), kSafetensorsHeaderBytesMax));
  return header;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata, const TensorProducer& produce) {
  QUERN_ASSIGN(const std::vector<Planned> planned, plan(tensors));
  QUERN_ASSIGN(const std::string header, make_header(tensors, planned, metadata));
  QUERN_ASSIGN(PartFile file, PartFile::create(path));
  const auto header_bytes = static_cast<uint64_t>(header.size());
  QUERN_TRY(file.write(std::as_bytes(std::span(&header_bytes, 1))));
  QUERN_TRY(file.write(header));
  for (const auto& [index, bytes] : planned) {
    const uint64_t begin = file.size();
    QUERN_TRY(produce(index, [&](std::span<const std::byte> piece) { return file.write(piece); }));
    QUERN_CHECK(file.size() - begin == bytes);
  }
  return file.commit();
}

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata) {
  return write_safetensors(path, tensors, metadata,
                           [&](size_t index, const ByteSink& sink) { return sink(tensors[index].bytes); });
}

}  // namespace quern
