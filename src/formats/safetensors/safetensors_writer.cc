#include "formats/safetensors/safetensors_writer.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/status.h"
#include "formats/checked_shape.h"
#include "formats/name_index.h"
#include "formats/part_file.h"
#include "formats/printable.h"

namespace quern {
namespace {

constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the reader's limit
constexpr std::string_view kMetadataName = "__metadata__";

Status check(const TensorView& tensor) {
  const std::string what = fmt::format("tensor {}", printable(tensor.name));
  const DTypeInfo& info = dtype_info(tensor.dtype);
  if (info.safetensors.empty()) return invalid_argument(fmt::format("{}: safetensors has no {}", what, info.name));
  if (tensor.name == kMetadataName) return invalid_argument(fmt::format("{}: the name is reserved", what));
  if (tensor.shape.size() > kMaxDims)
    return invalid_argument(fmt::format("{}: more than {} dimensions", what, kMaxDims));
  const auto bytes = checked_bytes(tensor.dtype, tensor.shape, what);
  if (!bytes) return invalid_argument(bytes.error().message);
  QUERN_CHECK(*bytes == tensor.bytes.size());
  return {};
}

// A JSON string. Errors: kInvalidArgument when `text` is not UTF-8.
Result<std::string> json_string(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    return invalid_argument(fmt::format("{} is not UTF-8", printable(text)));
  }
}

Result<std::string> make_header(std::span<const TensorView* const> tensors,
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
  for (const TensorView* tensor : tensors) {
    QUERN_ASSIGN(const std::string name, json_string(tensor->name));
    separate();
    header += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                          dtype_info(tensor->dtype).safetensors, fmt::join(tensor->shape, ","), offset,
                          offset + tensor->bytes.size());
    offset += tensor->bytes.size();
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kHeaderBytesMax)
    return invalid_argument(
        fmt::format("a header of {} bytes is over the limit of {}", header.size(), kHeaderBytesMax));
  return header;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorView*> ordered;
  for (const TensorView& tensor : tensors) {
    QUERN_TRY(check(tensor));
    ordered.push_back(&tensor);
  }
  if (const TensorView* twice = NameIndex(tensors).first_duplicate()) {
    return invalid_argument(fmt::format("two tensors are named {}", printable(twice->name)));
  }
  // Wide elements first: the data begins at a multiple of 8, so every tensor is then aligned to its element.
  std::ranges::stable_sort(ordered, std::greater(),
                           [](const TensorView* tensor) { return dtype_info(tensor->dtype).block_bytes; });

  QUERN_ASSIGN(const std::string header, make_header(ordered, metadata));
  QUERN_ASSIGN(PartFile file, PartFile::create(path));
  const auto header_bytes = static_cast<uint64_t>(header.size());
  QUERN_TRY(file.write(std::as_bytes(std::span(&header_bytes, 1))));
  QUERN_TRY(file.write(header));
  for (const TensorView* tensor : ordered) QUERN_TRY(file.write(tensor->bytes));
  return file.commit();
}

}  // namespace quern
