// Takes tensors out of a file by name, checks their shapes, puts them on the device, and knows in the end what was
// left. Every failure is kInvalidFile with the tensor's name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_set>

#include "formats/tensor_file.h"
#include "models/model.h"
#include "models/model_config.h"
#include "models/tensor_names.h"
#include "models/weights.h"
#include "quern/status.h"

namespace quern {

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
};

class TensorBinder {
 public:
  // All arguments must outlive the binder; `file` must outlive the store.
  TensorBinder(const TensorFile& file, const TensorNames& names, Device& device, const LoadOptions& options,
               WeightStore& store);

  const TensorNames& names() const { return names_; }
  bool has(std::string_view pattern, int32_t layer = 0) const;  // "pattern.weight"
  bool has_whole(std::string_view pattern, int32_t layer = 0) const;

  // ---- Raw tensors -------------------------------------------------------------------------------------------
  // Checks the shape and marks the tensor as used. `name` is complete.
  Result<TensorView> take(const std::string& name, const Shape& shape);
  // A matrix [rows, cols] as the family stores it: turned round by a host copy where files are [in, out].
  Result<TensorView> take_matrix(const std::string& name, int64_t rows, int64_t cols);
  Result<std::vector<float>> take_floats(const std::string& name, const Shape& shape);

  // ---- Onto the device ---------------------------------------------------------------------------------------
  // "base.weight" [rows, cols] and "base.bias" [rows].
  Status linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias, Linear& out);
  // The same with weights that stay exact whatever the precision (routers).
  Status exact_linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias, Linear& out);
  // One fused matrix [rows, cols] whose row ranges belong to several projections.
  struct Slice {
    std::vector<RowRange> ranges;
    Linear* out = nullptr;
  };
  Status fused_linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias,
                      std::span<const Slice> slices);
  Status norm(std::string_view pattern, int32_t layer, const NormConfig& config, int64_t width, NormWeights& out);
  Status vector(const std::string& name, const Shape& shape, Presence presence, const float*& out);

  // What the matrices that are packed from now on are for: the quantization rounds by it. At first kKept.
  void set_role(WeightRole role) { role_ = role; }
  // Whether pack() would round such a matrix.
  bool rounds(WeightRole role, const WeightRows& rows) const;
  Result<const Weight*> pack(std::span<const WeightRows> parts, int64_t planes, Precision precision,
                             const std::string& name);
  Result<const float*> upload(std::span<const float> values);
  // Bytes that live as long as the store: for weights that need another layout than the file's.
  std::byte* host_copy(size_t bytes);

  std::string prefixed(std::string_view pattern, int32_t layer = 0, int32_t expert = 0) const;
  const TensorFile& file() const { return file_; }
  Device& device() { return device_; }
  Precision precision() const { return options_.precision; }

  // Error naming a tensor that nothing took.
  Status check_all_used() const;
  void ignore(std::string pattern) { ignored_.push_back(std::move(pattern)); }

 private:
  Status bind_linear(std::string_view pattern, int32_t layer, int64_t rows, int64_t cols, Presence bias,
                     Precision precision, Linear& out);
  // Counts a matrix in the report. Errors: those of rounding.
  Status report(std::span<const WeightRows> parts, std::optional<DType> rounded_to, const std::string& name);

  bool is_host_copy(const std::byte* bytes) const;

  const TensorFile& file_;
  const TensorNames& names_;
  Device& device_;
  LoadOptions options_;
  WeightRole role_ = WeightRole::kKept;
  WeightStore& store_;
  std::string_view prefix_;
  std::vector<std::string> ignored_;
  std::unordered_set<std::string_view> used_;  // views of names in file_
};

// `view` seen as rows, for WeightRows.
WeightRows rows_of(const TensorView& view, int64_t cols);
WeightRows rows_of(const TensorView& view, int64_t cols, RowRange range);

}  // namespace quern
