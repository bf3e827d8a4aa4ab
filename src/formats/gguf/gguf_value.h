// Metadata of a GGUF file: typed key/value pairs, in file order.
// Source: the GGUF specification (ggml project, docs/gguf.md), versions 2 and 3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quern/status.h"

namespace quern {

constexpr uint64_t kGgufAlignmentDefault = 32;
constexpr uint32_t kGgufDimsMax = 4;

// Numbers of value types in a file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

struct GgufValue;
// An array keeps its declared element type even when empty. Scalars of arrays are widened to the alternatives below.
struct GgufArray {
  uint32_t element_type = 0;  // GGUF value type number, 0..12
  std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>, std::vector<std::string>,
               std::vector<GgufArray>>
      items;  // u8..u64 and bool → uint64_t; i8..i64 → int64_t; f32, f64 → double
  size_t size() const;
};
struct GgufValue {
  uint32_t type = 0;  // GGUF value type number, 0..12
  std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray> value;
};

class GgufMetadata {
 public:
  GgufMetadata() = default;
  explicit GgufMetadata(std::vector<std::pair<std::string, GgufValue>> pairs)
      : pairs_(std::move(pairs)) {}  // keys distinct

  const std::vector<std::pair<std::string, GgufValue>>& pairs() const { return pairs_; }
  void set(std::string key, GgufValue value);         // replaces an existing key
  const GgufValue* find(std::string_view key) const;  // nullptr when absent

  // Typed look-ups: kNotFound when absent, kInvalidFile (naming the key) when of another kind or out of range.
  // Integers of any width and sign convert when the value fits; integers convert to double; bools of an array are 0
  // and 1.
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;  // a scalar counts as an array of one
  Result<std::vector<double>> get_floats(std::string_view key) const;
  Result<const std::vector<std::string>*> get_strings(std::string_view key) const;  // view into the metadata

 private:
  std::vector<std::pair<std::string, GgufValue>> pairs_;
};

}  // namespace quern
