#include "models/tensor_binder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

bool is_number_type(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
    case DType::kBool: return false;
    default: return true;
  }
}

// [rows, cols] out of [cols, rows], elements of `size` bytes.
void transpose(const std::byte* source, std::byte* target, int64_t rows, int64_t cols, size_t size) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      std::memcpy(target + static_cast<size_t>(row * cols + col) * size,
                  source + static_cast<size_t>(col * rows + row) * size, size);
    }
  }
}

// A number that a type cannot hold is the file's fault, and a tensor's.
Error of_tensor(const std::string& name, Error error) {
  if (error.code == ErrorCode::kInvalidArgument) error.code = ErrorCode::kInvalidFile;
  error.message = fmt::format("tensor {}: {}", name, error.message);
  return error;
}

}  // namespace

WeightRows rows_of(const TensorView& view, int64_t cols) {
  return rows_of(view, cols, {0, view.elements() / cols});
}

WeightRows rows_of(const TensorView& view, int64_t cols, RowRange range) {
  const auto row_bytes = dtype_bytes(view.dtype, static_cast<uint64_t>(cols));
  QUERN_CHECK(row_bytes.has_value());
  QUERN_CHECK((static_cast<uint64_t>(range.begin) + static_cast<uint64_t>(range.count)) * *row_bytes <=
              view.bytes.size());
  return {view.dtype, range.count, cols, view.bytes.data() + static_cast<uint64_t>(range.begin) * *row_bytes};
}

TensorBinder::TensorBinder(const TensorFile& file, const TensorNames& names, Device& device, const LoadOptions& options,
                           WeightStore& store)
    : file_(file), names_(names), device_(device), options_(options), store_(store), prefix_(names.prefixes[0]) {
  for (std::string_view prefix : names.prefixes) {
    if (file.find(std::string(prefix) + std::string(names.embed) + ".weight") != nullptr) {
      prefix_ = prefix;
      break;
    }
  }
  for (std::string_view pattern : names.ignored) ignored_.emplace_back(pattern);
}

std::string TensorBinder::prefixed(std::string_view pattern, int32_t layer, int32_t expert) const {
  return std::string(prefix_) + tensor_name(pattern, layer, expert);
}

bool TensorBinder::has(std::string_view pattern, int32_t layer) const {
  return !pattern.empty() && file_.find(prefixed(pattern, layer) + ".weight") != nullptr;
}

bool TensorBinder::has_whole(std::string_view pattern, int32_t layer) const {
  return !pattern.empty() && file_.find(prefixed(pattern, layer)) != nullptr;
}

Result<TensorView> TensorBinder::take(const std::string& name, const Shape& shape) {
  const TensorView* view = file_.find(name);
  if (view == nullptr) return invalid_file(fmt::format("tensor {} is missing", name));
  // GGUF writes a matrix of one row as a vector.
  const bool row_vector = shape.size() == 2 && shape[0] == 1 && view->shape == Shape{shape[1]};
  if (view->shape != shape && !row_vector) {
    return invalid_file(fmt::format("tensor {} has shape {}, the configuration requires {}", name,
                                    shape_string(view->shape), shape_string(shape)));
  }
  used_.insert(view->name);
  return *view;
}

Result<TensorView> TensorBinder::take_matrix(const std::string& name, int64_t rows, int64_t cols) {
  if (!names_.transposed) return take(name, {rows, cols});
  QUERN_ASSIGN(const TensorView view, take(name, {cols, rows}));
  if (is_quantized(view.dtype))
    return invalid_file(fmt::format("tensor {} is quantised along the wrong dimension", name));
  const size_t element = static_cast<size_t>(dtype_info(view.dtype).block_bytes);
  std::byte* copy = host_copy(view.bytes.size());
  transpose(view.bytes.data(), copy, rows, cols, element);
  return TensorView{name, view.dtype, {rows, cols}, {copy, view.bytes.size()}};
}

Result<std::vector<float>> TensorBinder::take_floats(const std::string& name, const Shape& shape) {
  QUERN_ASSIGN(const TensorView view, take(name, shape));
  if (!is_number_type(view.dtype)) return invalid_file(fmt::format("tensor {} is of an integer type", name));
  std::vector<float> values(static_cast<size_t>(view.elements()));
  dequantize(view.dtype, view.bytes.data(), values.data(), view.elements());
  return values;
}

Status TensorBinder::linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias,
                            Linear& out) {
  return bind_linear(pattern, layer, rows, cols, bias, precision(), out);
}

Status TensorBinder::exact_linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias,
                                  Linear& out) {
  const WeightRole role = std::exchange(role_, WeightRole::kKept);
  const Status status = bind_linear(pattern, layer, rows, cols, bias, Precision::kExact, out);
  role_ = role;
  return status;
}

Status TensorBinder::bind_linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias,
                                 Precision precision, Linear& out) {
  const std::string base = prefixed(pattern, layer);
  QUERN_ASSIGN(const TensorView view, take_matrix(base + ".weight", rows, cols));
  const WeightRows part = rows_of(view, cols);
  QUERN_ASSIGN(out.weight, pack({&part, 1}, 1, precision, base));
  return vector(base + ".bias", {rows}, bias, out.bias);
}

Status TensorBinder::fused_linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias,
                                  std::span<const Slice> slices) {
  const std::string base = prefixed(pattern, layer);
  QUERN_ASSIGN(const TensorView view, take_matrix(base + ".weight", rows, cols));
  std::vector<float> biases;
  if (bias == Presence::kRequired || (bias == Presence::kIfPresent && file_.find(base + ".bias") != nullptr)) {
    QUERN_ASSIGN(biases, take_floats(base + ".bias", {rows}));
  }
  for (const Slice& slice : slices) {
    std::vector<WeightRows> parts;
    std::vector<float> part_biases;
    for (const RowRange& range : slice.ranges) {
      parts.push_back(rows_of(view, cols, range));
      if (biases.empty()) continue;
      part_biases.insert(part_biases.end(), biases.begin() + range.begin, biases.begin() + range.begin + range.count);
    }
    QUERN_ASSIGN(slice.out->weight, pack(parts, 1, precision(), base));
    if (!biases.empty()) {
      QUERN_ASSIGN(slice.out->bias, upload(part_biases));
    }
  }
  return {};
}

Status TensorBinder::norm(std::string_view pattern, int32_t layer, const NormConfig& config, int64_t width,
                          NormWeights& out) {
  if (!config.affine) return {};
  const std::string base = prefixed(pattern, layer);
  QUERN_TRY(vector(base + ".weight", {width}, Presence::kRequired, out.weight));
  return vector(base + ".bias", {width}, config.bias, out.bias);
}

Status TensorBinder::vector(const std::string& name, const Shape& shape, Presence presence, const float*& out) {
  if (presence == Presence::kAbsent) return {};
  if (presence == Presence::kIfPresent && file_.find(name) == nullptr) return {};
  QUERN_ASSIGN(const std::vector<float> values, take_floats(name, shape));
  QUERN_ASSIGN(out, upload(values));
  return {};
}

bool TensorBinder::rounds(WeightRole role, const WeightRows& rows) const {
  return options_.quantization.target(role, rows.dtype, rows.cols).has_value();
}

Status TensorBinder::report(std::span<const WeightRows> parts, std::optional<DType> rounded_to,
                            const std::string& name) {
  QuantReport* report = options_.report;
  if (report == nullptr || role_ == WeightRole::kKept) return {};
  const WeightRows& first = parts[0];
  if (!rounded_to) {
    // In a type of one element per block it would have been rounded: then the width was in the way.
    const bool odd = options_.quantization.target(role_, first.dtype, 0).has_value();
    if (is_quantized(first.dtype) && !options_.quantization.is_none()) ++report->quantized;
    if (odd && report->odd++ == 0) report->first_odd = name;
    return {};
  }
  ++report->rounded;
  RoundedTensor tensor{.name = name, .from = first.dtype, .to = *rounded_to};
  for (const WeightRows& part : parts) {
    const auto elements = static_cast<uint64_t>(part.rows) * static_cast<uint64_t>(part.cols);
    report->source_bytes += static_cast<int64_t>(dtype_bytes(part.dtype, elements).value_or(0));
    report->rounded_bytes += static_cast<int64_t>(dtype_bytes(*rounded_to, elements).value_or(0));
    if (!report->measure) continue;
    auto error = rounding_error(part.dtype, part.bytes, part.rows, part.cols, *rounded_to);
    if (!error) return std::unexpected(of_tensor(name, std::move(error).error()));
    tensor.error.add(*error);
  }
  if (report->measure) report->tensors.push_back(std::move(tensor));
  return {};
}

Result<const Weight*> TensorBinder::pack(std::span<const WeightRows> parts, int64_t planes, Precision precision,
                                         const std::string& name) {
  for (const WeightRows& part : parts) {
    if (!is_number_type(part.dtype)) {
      return invalid_file(
          fmt::format("tensor {} is of type {}, not floating or quantised", name, dtype_info(part.dtype).name));
    }
    if (part.dtype != parts[0].dtype) {
      return invalid_file(fmt::format("parts of {} are of different types, {} and {}", name,
                                      dtype_info(parts[0].dtype).name, dtype_info(part.dtype).name));
    }
  }
  const std::optional<DType> rounded_to = options_.quantization.target(role_, parts[0].dtype, parts[0].cols);
  QUERN_TRY(report(parts, rounded_to, name));
  auto packed = device_.pack(parts, planes, {precision, rounded_to});
  if (!packed) return std::unexpected(rounded_to ? of_tensor(name, packed.error()) : packed.error());
  std::unique_ptr<Weight> weight = std::move(*packed);
  if (weight->device_bytes > 0) {
    for (const WeightRows& part : parts) {
      if (is_host_copy(part.bytes)) continue;
      const auto row_bytes = dtype_bytes(part.dtype, static_cast<uint64_t>(part.cols));
      MappedFile::drop_resident({part.bytes, static_cast<size_t>(part.rows) * row_bytes.value_or(0)});
    }
  }
  store_.weights.push_back(std::move(weight));
  return store_.weights.back().get();
}

Result<const float*> TensorBinder::upload(std::span<const float> values) {
  QUERN_ASSIGN(std::unique_ptr<Buffer> buffer, device_.allocate(static_cast<int64_t>(values.size())));
  device_.upload(values, buffer->data());
  store_.vectors.push_back(std::move(buffer));
  return store_.vectors.back()->data();
}

bool TensorBinder::is_host_copy(const std::byte* bytes) const {
  return std::ranges::any_of(
      store_.host, [bytes](const auto& copy) { return bytes >= copy->data() && bytes < copy->data() + copy->size(); });
}

std::byte* TensorBinder::host_copy(size_t bytes) {
  store_.host.push_back(std::make_unique<std::vector<std::byte>>(bytes));
  return store_.host.back()->data();
}

Status TensorBinder::check_all_used() const {
  for (const TensorView& view : file_.tensors()) {
    if (used_.contains(view.name)) continue;
    bool is_ignored = false;
    for (const std::string& pattern : ignored_) is_ignored = is_ignored || matches_pattern(view.name, pattern);
    if (!is_ignored) return invalid_file(fmt::format("tensor {} is not used by this model", view.name));
  }
  return {};
}

}  // namespace quern
