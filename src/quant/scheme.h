// Which weights are held as what when a model is quantised at load: --quantization, or `quantization` of a
// configuration file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/error.h"
#include "quern/status.h"
#include "tensor/dtype.h"

namespace quern {

enum class QuantMode : uint8_t {
  kNone,  // as the file has it
  kFp16,  // F32 and F64 as F16; narrower floats stay
  kInt8,  // floats as Q8_0
  kInt4,  // floats as Q4_1
};

// What a matrix is for. Embedding and position tables, norms, biases, routers and classifier heads are kKept.
enum class WeightRole : uint8_t { kKept, kAttention, kFfn, kOutput };

struct QuantScheme {
  QuantMode attention = QuantMode::kNone;
  QuantMode ffn = QuantMode::kNone;

  bool is_none() const { return attention == QuantMode::kNone && ffn == QuantMode::kNone; }
  // The output matrix decides between tokens that are close: never under eight bits.
  QuantMode output() const;
  // What a matrix of this type and width is rounded to; absent: it stays. Quantised types stay, and so do rows that are
  // no whole number of blocks.
  std::optional<DType> target(WeightRole role, DType source, int64_t cols) const;
};

// "none" | "fp16" | "int8" | "int4" | "hybrid:attention=MODE,ffn=MODE". kInvalidArgument names "quantization" and the
// value.
Result<QuantScheme> parse_quant_scheme(std::string_view text);

struct RoundedTensor {
  std::string name;
  DType from = DType::kF32, to = DType::kF32;
  QuantError error;
};

// What became of the matrices of a model that was loaded with a scheme.
struct QuantReport {
  int64_t rounded = 0;        // matrices
  int64_t quantized = 0;      // stayed, because the file has them quantised
  int64_t odd = 0;            // stayed, because their rows are no whole number of blocks
  std::string first_odd;      // its name
  int64_t source_bytes = 0;   // of the rounded ones, in the file
  int64_t rounded_bytes = 0;  // and as they are held
  bool measure = false;       // asked for by the caller: fill in `tensors`, which takes a pass over every rounded one
  std::vector<RoundedTensor> tensors;
};
// One line for whoever asked for the scheme, when something stayed that the scheme speaks of; else empty.
// `scheme` is what parse_quant_scheme() read.
std::string describe(const QuantReport& report, std::string_view scheme);

}  // namespace quern
