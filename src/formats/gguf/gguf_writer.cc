#include "formats/gguf/gguf_writer.h"

#include <bit>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "formats/checked_shape.h"
#include "formats/name_index.h"
#include "formats/part_file.h"
#include "formats/printable.h"

namespace quern {
namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kWrittenNameBytesMax = 63;  // what every reader takes

uint64_t padding(uint64_t position, uint64_t alignment) {
  return (alignment - position % alignment) % alignment;
}

// The header grows in memory; it is small beside the data.
class HeaderBytes {
 public:
  template <class T>
  void number(T value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    text_.append(bytes, sizeof(value));
  }
  void string(std::string_view text) {
    number(static_cast<uint64_t>(text.size()));
    text_ += text;
  }
  void magic(std::string_view letters) { text_ += letters; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Writes `value` as the number type Stored; false when it does not fit.
template <class Stored, class Wide>
bool put_integer(Wide value, HeaderBytes& out) {
  if (!std::in_range<Stored>(value)) return false;
  out.number(static_cast<Stored>(value));
  return true;
}

// One integer or float of the given type. False when the alternative or the range does not match the type.
template <class Wide>
bool put_scalar(uint32_t type, Wide value, HeaderBytes& out) {
  if constexpr (std::is_same_v<Wide, double>) {
    if (type == static_cast<uint32_t>(GgufType::kF64)) return out.number(value), true;
    if (type == static_cast<uint32_t>(GgufType::kF32)) return out.number(static_cast<float>(value)), true;
    return false;
  } else {
    switch (static_cast<GgufType>(type)) {
      case GgufType::kU8: return put_integer<uint8_t>(value, out);
      case GgufType::kU16: return put_integer<uint16_t>(value, out);
      case GgufType::kU32: return put_integer<uint32_t>(value, out);
      case GgufType::kU64: return put_integer<uint64_t>(value, out);
      case GgufType::kI8: return put_integer<int8_t>(value, out);
      case GgufType::kI16: return put_integer<int16_t>(value, out);
      case GgufType::kI32: return put_integer<int32_t>(value, out);
      case GgufType::kI64: return put_integer<int64_t>(value, out);
      case GgufType::kBool: return value <= 1 && put_integer<uint8_t>(value, out);
      default: return false;
    }
  }
}

bool put_array(const GgufArray& array, HeaderBytes& out) {
  out.number(array.element_type);
  out.number(static_cast<uint64_t>(array.size()));
  const auto type = static_cast<GgufType>(array.element_type);
  if (const auto* strings = std::get_if<std::vector<std::string>>(&array.items)) {
    for (const std::string& item : *strings) out.string(item);
    return type == GgufType::kString || strings->empty();
  }
  if (const auto* arrays = std::get_if<std::vector<GgufArray>>(&array.items)) {
    for (const GgufArray& item : *arrays) {
      if (!put_array(item, out)) return false;
    }
    return type == GgufType::kArray || arrays->empty();
  }
  return std::visit(
      [&](const auto& items) {
        using Item = typename std::decay_t<decltype(items)>::value_type;
        if constexpr (std::is_arithmetic_v<Item>) {
          for (const Item item : items) {
            if (!put_scalar(array.element_type, item, out)) return false;
          }
        }
        return true;
      },
      array.items);
}

bool put_value(const GgufValue& value, HeaderBytes& out) {
  out.number(value.type);
  const auto type = static_cast<GgufType>(value.type);
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    out.string(*text);
    return type == GgufType::kString;
  }
  if (const auto* array = std::get_if<GgufArray>(&value.value))
    return type == GgufType::kArray && put_array(*array, out);
  if (const auto* flag = std::get_if<bool>(&value.value)) {
    out.number(static_cast<uint8_t>(*flag ? 1 : 0));
    return type == GgufType::kBool;
  }
  if (type == GgufType::kBool) return false;
  if (const auto* u = std::get_if<uint64_t>(&value.value)) return put_scalar(value.type, *u, out);
  if (const auto* i = std::get_if<int64_t>(&value.value)) return put_scalar(value.type, *i, out);
  return put_scalar(value.type, std::get<double>(value.value), out);
}

Result<uint64_t> alignment_of(const GgufMetadata& metadata) {
  const GgufValue* value = metadata.find("general.alignment");
  if (value == nullptr) return kGgufAlignmentDefault;
  const auto* alignment = std::get_if<uint64_t>(&value->value);
  if (alignment == nullptr || value->type != static_cast<uint32_t>(GgufType::kU32) ||
      !std::has_single_bit(*alignment)) {
    return invalid_argument("general.alignment is not a u32 power of two");
  }
  return *alignment;
}

// Bytes of each tensor, after checking what a reader would.
Result<std::vector<uint64_t>> check_tensors(std::span<const TensorView> tensors) {
  std::vector<uint64_t> sizes;
  for (const TensorView& tensor : tensors) {
    const std::string what = fmt::format("tensor {}", printable(tensor.name));
    if (tensor.name.size() > kWrittenNameBytesMax)
      return invalid_argument(fmt::format("{}: a name of more than {} bytes", what, kWrittenNameBytesMax));
    if (tensor.shape.size() > kGgufDimsMax)
      return invalid_argument(fmt::format("{}: more than {} dimensions", what, kGgufDimsMax));
    if (dtype_info(tensor.dtype).gguf_id < 0)
      return invalid_argument(fmt::format("{}: GGUF has no {}", what, dtype_info(tensor.dtype).name));
    const auto bytes = checked_bytes(tensor.dtype, tensor.shape, what);
    if (!bytes) return invalid_argument(bytes.error().message);
    sizes.push_back(*bytes);
  }
  if (const TensorView* twice = NameIndex(tensors).first_duplicate()) {
    return invalid_argument(fmt::format("two tensors are named {}", printable(twice->name)));
  }
  return sizes;
}

Result<HeaderBytes> make_header(const GgufMetadata& metadata, std::span<const TensorView> tensors,
                                std::span<const uint64_t> sizes, uint64_t alignment) {
  HeaderBytes out;
  out.magic("GGUF");
  out.number(kVersion);
  out.number(static_cast<uint64_t>(tensors.size()));
  out.number(static_cast<uint64_t>(metadata.pairs().size()));
  for (const auto& [key, value] : metadata.pairs()) {
    out.string(key);
    if (!put_value(value, out))
      return invalid_argument(fmt::format("metadata {}: value and type {} do not agree", printable(key), value.type));
  }
  uint64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    out.string(tensor.name);
    out.number(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d-- > 0;) out.number(static_cast<uint64_t>(tensor.shape[d]));
    out.number(static_cast<uint32_t>(dtype_info(tensor.dtype).gguf_id));
    out.number(offset);
    offset += sizes[i] + padding(sizes[i], alignment);
  }
  return out;
}

}  // namespace

Status write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata, std::span<const TensorView> tensors,
                  const TensorProducer& produce) {
  QUERN_ASSIGN(const uint64_t alignment, alignment_of(metadata));
  QUERN_ASSIGN(const std::vector<uint64_t> sizes, check_tensors(tensors));
  QUERN_ASSIGN(const HeaderBytes header, make_header(metadata, tensors, sizes, alignment));
  QUERN_ASSIGN(PartFile file, PartFile::create(path));
  QUERN_TRY(file.write(header.text()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    QUERN_TRY(file.write_zeros(padding(file.size(), alignment)));
    const uint64_t begin = file.size();
    QUERN_TRY(produce(i, [&](std::span<const std::byte> bytes) { return file.write(bytes); }));
    QUERN_CHECK(file.size() - begin == sizes[i]);
  }
  QUERN_TRY(file.write_zeros(padding(file.size(), alignment)));
  return file.commit();
}

Status write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                  std::span<const TensorView> tensors) {
  return write_gguf(path, metadata, tensors,
                    [&](size_t index, const ByteSink& sink) { return sink(tensors[index].bytes); });
}

}  // namespace quern
