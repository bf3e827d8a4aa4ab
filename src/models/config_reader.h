// Numbers out of config.json or GGUF metadata, each with its bounds. A reader keeps the first error and goes on with
// the fallback, so that a family's mapping is a plain list of keys; the caller asks status() once at the end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf_value.h"
#include "formats/tensor_file.h"
#include "quern/status.h"

namespace quern {

using Json = nlohmann::ordered_json;  // as in base/json.h, whose parser the families need not see

// Bounds of what any model may say. Far above every model known, far below what overflows a product of two.
inline constexpr int64_t kLayersMax = 1024;
inline constexpr int64_t kWidthMax = 1 << 20;  // hidden and intermediate sizes
inline constexpr int64_t kHeadsMax = 4096;
inline constexpr int64_t kHeadDimMax = 8192;
inline constexpr int64_t kExpertsMax = 4096;
inline constexpr int64_t kVocabMax = 1 << 24;
inline constexpr int64_t kPositionsMax = 1 << 30;

struct Bounds {
  int64_t min = 0;
  int64_t max = 0;
};

class ConfigReader {
 public:
  // Names of one value, the first present wins: {"num_hidden_layers", "n_layer"}. A dot goes into an object.
  using Keys = std::initializer_list<std::string_view>;

  virtual ~ConfigReader() = default;

  bool has(std::string_view key) const { return has_key(key); }
  int32_t require_int(Keys keys, Bounds bounds);
  int32_t int_or(Keys keys, int32_t fallback, Bounds bounds);
  float require_float(Keys keys, double min, double max);
  float float_or(Keys keys, float fallback, double min, double max);
  bool bool_or(Keys keys, bool fallback);
  std::string string_or(Keys keys, std::string fallback);
  std::vector<int64_t> ints(Keys keys, size_t count_max);   // empty when absent; a scalar counts as one
  std::vector<double> floats(Keys keys, size_t count_max);  // the same
  std::vector<std::string> strings(Keys keys, size_t count_max);

  // Records an error unless there is one already.
  void fail(Error error);
  void fail(std::string message) { fail(Error{ErrorCode::kInvalidFile, std::move(message)}); }
  Status status() const;

 protected:
  virtual bool has_key(std::string_view key) const = 0;          // present and not null
  virtual std::string full_key(std::string_view key) const = 0;  // as the file spells it, for messages
  virtual Result<std::vector<int64_t>> read_ints(std::string_view key) const = 0;
  virtual Result<std::vector<double>> read_floats(std::string_view key) const = 0;
  virtual Result<bool> read_bool(std::string_view key) const = 0;
  virtual Result<std::vector<std::string>> read_strings(std::string_view key) const = 0;

 private:
  const std::string_view* present(Keys keys) const;
  template <class T>
  T value_or_fail(Result<T> result);

  bool failed_ = false;
  Error error_;
};

// config.json. `config` must outlive the reader.
class HfConfigReader final : public ConfigReader {
 public:
  explicit HfConfigReader(const Json& config) : config_(config) {}
  const Json* find(std::string_view dotted_key) const;  // null when absent or JSON null
  // The file says null at its top level: "none", where an absent key means the family's default.
  bool says_null(std::string_view key) const;

 private:
  bool has_key(std::string_view key) const override { return find(key) != nullptr; }
  std::string full_key(std::string_view key) const override { return std::string(key); }
  Result<std::vector<int64_t>> read_ints(std::string_view key) const override;
  Result<std::vector<double>> read_floats(std::string_view key) const override;
  Result<bool> read_bool(std::string_view key) const override;
  Result<std::vector<std::string>> read_strings(std::string_view key) const override;

  const Json& config_;
};

// GGUF metadata. A key "attention.head_count" is looked up as "llama.attention.head_count"; one that begins with
// "tokenizer." or "general." as it is.
class GgufConfigReader final : public ConfigReader {
 public:
  GgufConfigReader(const GgufMetadata& metadata, std::string architecture, const TensorFile* tensors)
      : metadata_(metadata), architecture_(std::move(architecture)), tensors_(tensors) {}
  const std::string& architecture() const { return architecture_; }
  // Some architectures say what a layer is made of by its tensors alone.
  bool has_tensor(std::string_view name) const { return tensors_ != nullptr && tensors_->find(name) != nullptr; }

 private:
  bool has_key(std::string_view key) const override;
  std::string full_key(std::string_view key) const override;
  Result<std::vector<int64_t>> read_ints(std::string_view key) const override;
  Result<std::vector<double>> read_floats(std::string_view key) const override;
  Result<bool> read_bool(std::string_view key) const override;
  Result<std::vector<std::string>> read_strings(std::string_view key) const override;

  const GgufMetadata& metadata_;
  std::string architecture_;
  const TensorFile* tensors_;
};

}  // namespace quern
