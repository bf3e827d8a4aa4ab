#include "formats/gguf/gguf_value.h"

#include <limits>
#include <type_traits>

#include "base/status.h"

namespace quern {
namespace {

// Keys asked for are ours, so they go into messages as they are.
std::unexpected<Error> wrong_kind(std::string_view key, std::string_view wanted) {
  return invalid_file(fmt::format("metadata {} is not {}", key, wanted));
}

Result<int64_t> to_int(uint64_t value, std::string_view key) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return invalid_file(fmt::format("metadata {} is {}, out of range", key, value));
  }
  return static_cast<int64_t>(value);
}

}  // namespace

size_t GgufArray::size() const {
  return std::visit([](const auto& list) { return list.size(); }, items);
}

void GgufMetadata::set(std::string key, GgufValue value) {
  for (auto& [existing, old] : pairs_) {
    if (existing == key) {
      old = std::move(value);
      return;
    }
  }
  pairs_.emplace_back(std::move(key), std::move(value));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  for (const auto& [existing, value] : pairs_) {
    if (existing == key) return &value;
  }
  return nullptr;
}

namespace {

Result<const GgufValue*> require(const GgufMetadata& metadata, std::string_view key) {
  const GgufValue* value = metadata.find(key);
  if (value == nullptr) return not_found(fmt::format("metadata {} is missing", key));
  return value;
}

// The value as T, one of the alternatives.
template <class T>
Result<const T*> require_as(const GgufMetadata& metadata, std::string_view key, std::string_view wanted) {
  QUERN_ASSIGN(const GgufValue* value, require(metadata, key));
  const T* typed = std::get_if<T>(&value->value);
  if (typed == nullptr) return wrong_kind(key, wanted);
  return typed;
}

}  // namespace

Result<int64_t> GgufMetadata::get_int(std::string_view key) const {
  QUERN_ASSIGN(const GgufValue* value, require(*this, key));
  if (const auto* u = std::get_if<uint64_t>(&value->value)) return to_int(*u, key);
  if (const auto* i = std::get_if<int64_t>(&value->value)) return *i;
  return wrong_kind(key, "an integer");
}

Result<double> GgufMetadata::get_float(std::string_view key) const {
  QUERN_ASSIGN(const GgufValue* value, require(*this, key));
  if (const auto* d = std::get_if<double>(&value->value)) return *d;
  if (const auto* u = std::get_if<uint64_t>(&value->value)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(&value->value)) return static_cast<double>(*i);
  return wrong_kind(key, "a number");
}

Result<bool> GgufMetadata::get_bool(std::string_view key) const {
  QUERN_ASSIGN(const bool* value, require_as<bool>(*this, key, "a bool"));
  return *value;
}

Result<std::string> GgufMetadata::get_string(std::string_view key) const {
  QUERN_ASSIGN(const std::string* value, require_as<std::string>(*this, key, "a string"));
  return *value;
}

Result<std::vector<int64_t>> GgufMetadata::get_ints(std::string_view key) const {
  QUERN_ASSIGN(const GgufValue* value, require(*this, key));
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr) {
    QUERN_ASSIGN(const int64_t scalar, get_int(key));
    return std::vector<int64_t>{scalar};
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&array->items)) return *ints;
  const auto* unsigned_ints = std::get_if<std::vector<uint64_t>>(&array->items);
  if (unsigned_ints == nullptr) return wrong_kind(key, "an array of integers");
  std::vector<int64_t> result;
  result.reserve(unsigned_ints->size());
  for (const uint64_t item : *unsigned_ints) {
    QUERN_ASSIGN(const int64_t converted, to_int(item, key));
    result.push_back(converted);
  }
  return result;
}

Result<std::vector<double>> GgufMetadata::get_floats(std::string_view key) const {
  QUERN_ASSIGN(const GgufValue* value, require(*this, key));
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr) {
    QUERN_ASSIGN(const double scalar, get_float(key));
    return std::vector<double>{scalar};
  }
  return std::visit(
      [&](const auto& items) -> Result<std::vector<double>> {
        using Item = typename std::decay_t<decltype(items)>::value_type;
        if constexpr (std::is_arithmetic_v<Item>) {
          return std::vector<double>(items.begin(), items.end());
        } else {
          return wrong_kind(key, "an array of numbers");
        }
      },
      array->items);
}

Result<const std::vector<std::string>*> GgufMetadata::get_strings(std::string_view key) const {
  QUERN_ASSIGN(const GgufArray* array, require_as<GgufArray>(*this, key, "an array of strings"));
  const auto* strings = std::get_if<std::vector<std::string>>(&array->items);
  if (strings == nullptr) return wrong_kind(key, "an array of strings");
  return strings;
}

}  // namespace quern
