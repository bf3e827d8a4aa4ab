#include "formats/gguf/gguf_value_reader.h"

#include <limits>

#include "base/status.h"

namespace quern {
namespace {

// Fewest bytes an element of an array can take: bounds a count before anything is allocated for it.
uint64_t element_bytes_min(uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kString:
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    case GgufType::kArray: return 12;
  }
  return 0;
}

// Moves the items of a Result<std::vector<…>> into an array.
template <class Items>
Result<GgufArray> as_array(uint32_t element_type, Result<Items> items) {
  if (!items) return std::unexpected(std::move(items).error());
  return GgufArray{element_type, std::move(*items)};
}

}  // namespace

std::unexpected<Error> GgufValueReader::ended() const {
  return invalid_file(fmt::format("the file ends at byte {} inside a value", bytes_.position() + bytes_.remaining()));
}

Result<uint32_t> GgufValueReader::read_type() {
  uint32_t type = 0;
  if (!bytes_.read(type)) return ended();
  if (element_bytes_min(type) == 0) return invalid_file(fmt::format("unknown value type {}", type));
  return type;
}

Result<std::string_view> GgufValueReader::read_string(uint64_t size_max) {
  uint64_t size = 0;
  if (!bytes_.read(size)) return ended();
  if (size > size_max && size <= bytes_.remaining()) {
    return invalid_file(
        fmt::format("a string of {} bytes at byte {} is over the limit of {}", size, bytes_.position(), size_max));
  }
  std::string_view text;
  if (!bytes_.read_text(size, text)) {
    return invalid_file(
        fmt::format("a string of {} bytes at byte {} runs past the end of the file", size, bytes_.position()));
  }
  return text;
}

template <class Stored, class Wide>
Result<GgufValue> GgufValueReader::read_number(uint32_t type) {
  Stored value = 0;
  if (!bytes_.read(value)) return ended();
  return GgufValue{type, static_cast<Wide>(value)};
}

Result<GgufValue> GgufValueReader::read_value() {
  QUERN_ASSIGN(const uint32_t type, read_type());
  switch (static_cast<GgufType>(type)) {
    case GgufType::kU8: return read_number<uint8_t, uint64_t>(type);
    case GgufType::kI8: return read_number<int8_t, int64_t>(type);
    case GgufType::kU16: return read_number<uint16_t, uint64_t>(type);
    case GgufType::kI16: return read_number<int16_t, int64_t>(type);
    case GgufType::kU32: return read_number<uint32_t, uint64_t>(type);
    case GgufType::kI32: return read_number<int32_t, int64_t>(type);
    case GgufType::kU64: return read_number<uint64_t, uint64_t>(type);
    case GgufType::kI64: return read_number<int64_t, int64_t>(type);
    case GgufType::kF32: return read_number<float, double>(type);
    case GgufType::kF64: return read_number<double, double>(type);
    case GgufType::kBool: {
      QUERN_ASSIGN(const std::vector<uint64_t> bits, read_bools(1));
      return GgufValue{type, bits[0] == 1};
    }
    case GgufType::kString: {
      QUERN_ASSIGN(const std::string_view text, read_string(std::numeric_limits<uint64_t>::max()));
      return GgufValue{type, std::string(text)};
    }
    case GgufType::kArray: {
      QUERN_ASSIGN(GgufArray array, read_array(1));
      return GgufValue{type, std::move(array)};
    }
  }
  return invalid_file(fmt::format("unknown value type {}", type));
}

Result<GgufArray> GgufValueReader::read_array(int depth) {
  if (depth > kArrayDepthMax) return invalid_file(fmt::format("arrays nested deeper than {}", kArrayDepthMax));
  QUERN_ASSIGN(const uint32_t type, read_type());
  uint64_t count = 0;
  if (!bytes_.read(count)) return ended();
  if (count > bytes_.remaining() / element_bytes_min(type)) {
    return invalid_file(
        fmt::format("an array of {} elements at byte {} runs past the end of the file", count, bytes_.position()));
  }
  if (count > kArrayItemsMax - array_items_) {
    return invalid_file(fmt::format("arrays of more than {} elements together", kArrayItemsMax));
  }
  array_items_ += count;
  switch (static_cast<GgufType>(type)) {
    case GgufType::kU8: return as_array(type, read_numbers<uint8_t, uint64_t>(count));
    case GgufType::kI8: return as_array(type, read_numbers<int8_t, int64_t>(count));
    case GgufType::kU16: return as_array(type, read_numbers<uint16_t, uint64_t>(count));
    case GgufType::kI16: return as_array(type, read_numbers<int16_t, int64_t>(count));
    case GgufType::kU32: return as_array(type, read_numbers<uint32_t, uint64_t>(count));
    case GgufType::kI32: return as_array(type, read_numbers<int32_t, int64_t>(count));
    case GgufType::kU64: return as_array(type, read_numbers<uint64_t, uint64_t>(count));
    case GgufType::kI64: return as_array(type, read_numbers<int64_t, int64_t>(count));
    case GgufType::kF32: return as_array(type, read_numbers<float, double>(count));
    case GgufType::kF64: return as_array(type, read_numbers<double, double>(count));
    case GgufType::kBool: return as_array(type, read_bools(count));
    case GgufType::kString: return as_array(type, read_strings(count));
    case GgufType::kArray: return as_array(type, read_arrays(count, depth));
  }
  return invalid_file(fmt::format("unknown element type {}", type));
}

template <class Stored, class Wide>
Result<std::vector<Wide>> GgufValueReader::read_numbers(uint64_t count) {
  std::vector<Wide> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    Stored value = 0;
    if (!bytes_.read(value)) return ended();
    items.push_back(static_cast<Wide>(value));
  }
  return items;
}

Result<std::vector<uint64_t>> GgufValueReader::read_bools(uint64_t count) {
  QUERN_ASSIGN(std::vector<uint64_t> items, (read_numbers<uint8_t, uint64_t>(count)));
  for (const uint64_t item : items) {
    if (item > 1) return invalid_file(fmt::format("a bool is {}, not 0 or 1", item));
  }
  return items;
}

Result<std::vector<std::string>> GgufValueReader::read_strings(uint64_t count) {
  std::vector<std::string> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    QUERN_ASSIGN(const std::string_view text, read_string(std::numeric_limits<uint64_t>::max()));
    items.emplace_back(text);
  }
  return items;
}

Result<std::vector<GgufArray>> GgufValueReader::read_arrays(uint64_t count, int depth) {
  std::vector<GgufArray> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    QUERN_ASSIGN(GgufArray array, read_array(depth + 1));
    items.push_back(std::move(array));
  }
  return items;
}

}  // namespace quern
