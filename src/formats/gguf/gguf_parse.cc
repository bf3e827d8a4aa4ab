#include "formats/gguf/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "base/status.h"
#include "formats/byte_reader.h"
#include "formats/checked_shape.h"
#include "formats/gguf/gguf_value_reader.h"
#include "formats/name_index.h"
#include "formats/printable.h"

namespace quern {
namespace {

constexpr uint64_t kPairBytesMin = 8 + 4 + 1;            // empty key, type, one byte of value
constexpr uint64_t kTensorInfoBytesMin = 8 + 4 + 4 + 8;  // empty name, no dimension, type, offset
constexpr uint64_t kPairsMax = 1 << 14;                  // files in circulation have under a hundred
constexpr uint64_t kKeyBytesMax = 65535;                 // GGUF specification
constexpr uint64_t kTensorNameBytesMax = 255;            // ggml keeps 63; some writers build it with more

// Where a tensor's data lies, before the start of the data section is known.
struct Placement {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name), reader_(bytes), values_(reader_) {}

  Result<GgufPart> parse() {
    QUERN_TRY(read_header());
    QUERN_TRY(read_metadata());
    QUERN_TRY(read_tensor_infos());
    QUERN_TRY(check_names());
    QUERN_TRY(place_data());
    return std::move(part_);
  }

 private:
  template <class... Args>
  std::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) const {
    return invalid_file(fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...)));
  }

  Status read_header();
  Status read_metadata();
  Status read_alignment();
  Status read_tensor_infos();
  Status read_tensor_info(uint64_t index);
  Status check_names() const;
  Status place_data();
  Status check_disjoint() const;

  std::span<const std::byte> bytes_;
  std::string_view name_;
  ByteReader reader_;
  GgufValueReader values_;
  uint64_t num_tensors_ = 0;
  uint64_t num_pairs_ = 0;
  uint64_t alignment_ = kGgufAlignmentDefault;
  GgufPart part_;
  std::vector<Placement> placements_;  // of part_.tensors
};

Status Parser::read_header() {
  std::string_view magic;
  if (!reader_.read_text(4, magic)) return fail("{} bytes are too few for a GGUF file", bytes_.size());
  if (magic != "GGUF") return fail("does not begin with \"GGUF\" but with {}", printable(magic));
  if (!reader_.read(part_.version)) return fail("the file ends inside its header");
  if (std::rotr(part_.version, 24) == 2 || std::rotr(part_.version, 24) == 3)
    return fail("big-endian GGUF is not read");
  if (part_.version != 2 && part_.version != 3) return fail("GGUF version {} is not 2 or 3", part_.version);
  if (!reader_.read(num_tensors_) || !reader_.read(num_pairs_)) return fail("the file ends inside its header");
  if (num_pairs_ > reader_.remaining() / kPairBytesMin) {
    return fail("{} metadata pairs do not fit the {} bytes that remain", num_pairs_, reader_.remaining());
  }
  if (num_pairs_ > kPairsMax) return fail("{} metadata pairs are over the limit of {}", num_pairs_, kPairsMax);
  if (num_tensors_ > reader_.remaining() / kTensorInfoBytesMin) {
    return fail("{} tensors do not fit the {} bytes that remain", num_tensors_, reader_.remaining());
  }
  return {};
}

Status Parser::read_metadata() {
  std::vector<std::pair<std::string, GgufValue>> pairs;
  for (uint64_t i = 0; i < num_pairs_; ++i) {
    const auto key = values_.read_string(kKeyBytesMax);
    if (!key) return fail("key of metadata pair {}: {}", i, key.error().message);
    auto value = values_.read_value();
    if (!value) return fail("metadata {}: {}", printable(*key), value.error().message);
    pairs.emplace_back(*key, std::move(*value));
  }
  std::vector<std::string_view> keys;
  keys.reserve(pairs.size());
  for (const auto& [key, value] : pairs) keys.push_back(key);
  std::ranges::sort(keys);
  if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) {
    return fail("metadata key {} occurs twice", printable(*twice));
  }
  part_.metadata = GgufMetadata(std::move(pairs));
  return read_alignment();
}

Status Parser::read_alignment() {
  const GgufValue* value = part_.metadata.find("general.alignment");
  if (value == nullptr) return {};
  if (value->type != static_cast<uint32_t>(GgufType::kU32)) {
    return fail("general.alignment has value type {}, not {} (u32)", value->type,
                static_cast<uint32_t>(GgufType::kU32));
  }
  alignment_ = std::get<uint64_t>(value->value);
  // Below 8 (the specification's least) tensors would begin where their elements may not.
  if (!std::has_single_bit(alignment_) || alignment_ < 8) {
    return fail("general.alignment is {}, not a power of two from 8 on", alignment_);
  }
  return {};
}

Status Parser::read_tensor_infos() {
  for (uint64_t i = 0; i < num_tensors_; ++i) QUERN_TRY(read_tensor_info(i));
  return {};
}

Status Parser::read_tensor_info(uint64_t index) {
  const auto name = values_.read_string(kTensorNameBytesMax);
  if (!name) return fail("name of tensor {}: {}", index, name.error().message);
  const std::string shown = printable(*name);

  uint32_t num_dims = 0;
  if (!reader_.read(num_dims)) return fail("tensor {}: the file ends inside its description", shown);
  if (num_dims > kGgufDimsMax) return fail("tensor {}: {} dimensions, the limit is {}", shown, num_dims, kGgufDimsMax);
  TensorView tensor{.name = std::string(*name), .shape = Shape(num_dims)};
  for (uint32_t i = 0; i < num_dims; ++i) {
    uint64_t dimension = 0;
    if (!reader_.read(dimension)) return fail("tensor {}: the file ends inside its shape", shown);
    if (dimension > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return fail("tensor {}: dimension {} is too large", shown, dimension);
    }
    tensor.shape[num_dims - 1 - i] = static_cast<int64_t>(dimension);
  }

  uint32_t type = 0;
  Placement placement;
  if (!reader_.read(type) || !reader_.read(placement.offset))
    return fail("tensor {}: the file ends inside its description", shown);
  const std::optional<DType> dtype = dtype_from_gguf(type);
  if (!dtype) return fail("tensor {}: unknown element type {}", shown, type);
  tensor.dtype = *dtype;
  QUERN_ASSIGN(placement.bytes, checked_bytes(tensor.dtype, tensor.shape, fmt::format("{}: tensor {}", name_, shown)));
  part_.tensors.push_back(std::move(tensor));
  placements_.push_back(placement);
  return {};
}

Status Parser::check_names() const {
  const NameIndex index(part_.tensors);
  if (const TensorView* twice = index.first_duplicate())
    return fail("two tensors are named {}", printable(twice->name));
  return {};
}

Status Parser::place_data() {
  // position is at most the file's size and alignment below 2^32, so the sum cannot wrap.
  const uint64_t start = (reader_.position() + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t data_bytes = start < bytes_.size() ? bytes_.size() - start : 0;
  for (size_t i = 0; i < placements_.size(); ++i) {
    TensorView& tensor = part_.tensors[i];
    const auto [offset, bytes] = placements_[i];
    if (offset % alignment_ != 0) {
      return fail("tensor {}: offset {} is not a multiple of the alignment {}", printable(tensor.name), offset,
                  alignment_);
    }
    if (offset > data_bytes || bytes > data_bytes - offset) {
      return fail("tensor {}: {} bytes at offset {} run past the end of the data ({} bytes)", printable(tensor.name),
                  bytes, offset, data_bytes);
    }
    if (bytes > 0) tensor.bytes = bytes_.subspan(start + offset, bytes);
  }
  return check_disjoint();
}

Status Parser::check_disjoint() const {
  std::vector<const TensorView*> by_place;
  by_place.reserve(part_.tensors.size());
  for (const TensorView& tensor : part_.tensors) {
    if (!tensor.bytes.empty()) by_place.push_back(&tensor);
  }
  std::ranges::sort(by_place, {}, [](const TensorView* tensor) { return tensor->bytes.data(); });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const TensorView& before = *by_place[i - 1];
    if (before.bytes.data() + before.bytes.size() > by_place[i]->bytes.data()) {
      return fail("the data of tensors {} and {} overlap", printable(before.name), printable(by_place[i]->name));
    }
  }
  return {};
}

}  // namespace

Result<GgufPart> parse_gguf_part(std::span<const std::byte> bytes, std::string_view name) {
  return Parser(bytes, name).parse();
}

}  // namespace quern
