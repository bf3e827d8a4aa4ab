#include "models/config_reader.h"

#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/status.h"

namespace quern {

const std::string_view* ConfigReader::present(Keys keys) const {
  for (const std::string_view& key : keys) {
    if (has_key(key)) return &key;
  }
  return nullptr;
}

void ConfigReader::fail(Error error) {
  if (failed_) return;
  failed_ = true;
  error_ = std::move(error);
}

Status ConfigReader::status() const {
  if (failed_) return std::unexpected(error_);
  return {};
}

template <class T>
T ConfigReader::value_or_fail(Result<T> result) {
  if (result) return std::move(*result);
  fail(std::move(result).error());
  return T{};
}

int32_t ConfigReader::require_int(Keys keys, Bounds bounds) {
  if (present(keys) == nullptr) {
    fail(fmt::format("{} is missing", full_key(*keys.begin())));
    return static_cast<int32_t>(bounds.min);
  }
  return int_or(keys, 0, bounds);
}

int32_t ConfigReader::int_or(Keys keys, int32_t fallback, Bounds bounds) {
  const std::string_view* key = present(keys);
  if (key == nullptr) return fallback;
  const std::vector<int64_t> values = value_or_fail(read_ints(*key));
  if (values.empty()) {
    fail(fmt::format("{} is empty", full_key(*key)));
    return static_cast<int32_t>(bounds.min);
  }
  for (int64_t value : values) {
    if (value < bounds.min || value > bounds.max) {
      fail(fmt::format("{} is {}, must be {} to {}", full_key(*key), value, bounds.min, bounds.max));
      return static_cast<int32_t>(bounds.min);
    }
    if (value != values[0]) {
      fail({ErrorCode::kUnsupported, fmt::format("{} differs between layers ({} and {}), which is not supported",
                                                 full_key(*key), values[0], value)});
    }
  }
  return static_cast<int32_t>(values[0]);
}

float ConfigReader::require_float(Keys keys, double min, double max) {
  if (present(keys) == nullptr) {
    fail(fmt::format("{} is missing", full_key(*keys.begin())));
    return static_cast<float>(min);
  }
  return float_or(keys, 0.0f, min, max);
}

float ConfigReader::float_or(Keys keys, float fallback, double min, double max) {
  const std::string_view* key = present(keys);
  if (key == nullptr) return fallback;
  const std::vector<double> values = value_or_fail(read_floats(*key));
  if (values.size() != 1) {
    fail(fmt::format("{} has {} values, must be one number", full_key(*key), values.size()));
    return fallback;
  }
  // Written so that a NaN is refused too.
  if (!(values[0] >= min && values[0] <= max)) {
    fail(fmt::format("{} is {}, must be {} to {}", full_key(*key), values[0], min, max));
    return fallback;
  }
  return static_cast<float>(values[0]);
}

bool ConfigReader::bool_or(Keys keys, bool fallback) {
  const std::string_view* key = present(keys);
  return key == nullptr ? fallback : value_or_fail(read_bool(*key));
}

std::string ConfigReader::string_or(Keys keys, std::string fallback) {
  const std::string_view* key = present(keys);
  if (key == nullptr) return fallback;
  const std::vector<std::string> values = value_or_fail(read_strings(*key));
  if (values.size() != 1) {
    fail(fmt::format("{} must be one string", full_key(*key)));
    return fallback;
  }
  return values[0];
}

std::vector<int64_t> ConfigReader::ints(Keys keys, size_t count_max) {
  const std::string_view* key = present(keys);
  if (key == nullptr) return {};
  std::vector<int64_t> values = value_or_fail(read_ints(*key));
  if (values.size() > count_max) {
    fail(fmt::format("{} has {} values, must have at most {}", full_key(*key), values.size(), count_max));
    values.resize(count_max);
  }
  return values;
}

std::vector<double> ConfigReader::floats(Keys keys, size_t count_max) {
  const std::string_view* key = present(keys);
  if (key == nullptr) return {};
  std::vector<double> values = value_or_fail(read_floats(*key));
  if (values.size() > count_max) {
    fail(fmt::format("{} has {} values, must have at most {}", full_key(*key), values.size(), count_max));
    values.resize(count_max);
  }
  return values;
}

std::vector<std::string> ConfigReader::strings(Keys keys, size_t count_max) {
  const std::string_view* key = present(keys);
  if (key == nullptr) return {};
  std::vector<std::string> values = value_or_fail(read_strings(*key));
  if (values.size() > count_max) {
    fail(fmt::format("{} has {} values, must have at most {}", full_key(*key), values.size(), count_max));
    values.resize(count_max);
  }
  return values;
}

// ---- config.json -----------------------------------------------------------------------------------------------

namespace {

std::unexpected<Error> wrong_kind(std::string_view key, std::string_view expected) {
  return invalid_file(fmt::format("{} is not {}", key, expected));
}

// Calls visit(item) for each item of an array, or once for a scalar.
template <class Visit>
bool for_each_item(const Json& value, Visit visit) {
  if (!value.is_array()) return visit(value);
  for (const Json& item : value) {
    if (!visit(item)) return false;
  }
  return true;
}

bool json_to_int(const Json& item, std::vector<int64_t>& out) {
  if (item.is_number_unsigned() && item.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    out.push_back(std::numeric_limits<int64_t>::max());  // out of every bound, so the bound's message follows
    return true;
  }
  if (item.is_number_integer()) {
    out.push_back(item.get<int64_t>());
    return true;
  }
  // Some checkpoints write whole numbers as 8.0.
  if (!item.is_number_float()) return false;
  const double value = item.get<double>();
  if (!(std::abs(value) < 9e15) || value != std::floor(value)) return false;
  out.push_back(static_cast<int64_t>(value));
  return true;
}

}  // namespace

const Json* HfConfigReader::find(std::string_view dotted_key) const {
  const Json* node = &config_;
  while (true) {
    if (!node->is_object()) return nullptr;
    const size_t dot = dotted_key.find('.');
    const auto it = node->find(std::string(dotted_key.substr(0, dot)));
    if (it == node->end() || it->is_null()) return nullptr;
    node = &*it;
    if (dot == std::string_view::npos) return node;
    dotted_key.remove_prefix(dot + 1);
  }
}

bool HfConfigReader::says_null(std::string_view key) const {
  const auto it = config_.find(std::string(key));
  return it != config_.end() && it->is_null();
}

Result<std::vector<int64_t>> HfConfigReader::read_ints(std::string_view key) const {
  std::vector<int64_t> values;
  if (!for_each_item(*find(key), [&](const Json& item) { return json_to_int(item, values); })) {
    return wrong_kind(key, "an integer");
  }
  return values;
}

Result<std::vector<double>> HfConfigReader::read_floats(std::string_view key) const {
  std::vector<double> values;
  const bool ok = for_each_item(*find(key), [&](const Json& item) {
    if (item.is_number()) values.push_back(item.get<double>());
    return item.is_number();
  });
  if (!ok) return wrong_kind(key, "a number");
  return values;
}

Result<bool> HfConfigReader::read_bool(std::string_view key) const {
  const Json& value = *find(key);
  if (!value.is_boolean()) return wrong_kind(key, "true or false");
  return value.get<bool>();
}

Result<std::vector<std::string>> HfConfigReader::read_strings(std::string_view key) const {
  std::vector<std::string> values;
  const bool ok = for_each_item(*find(key), [&](const Json& item) {
    if (item.is_string()) values.push_back(item.get<std::string>());
    return item.is_string();
  });
  if (!ok) return wrong_kind(key, "a string");
  return values;
}

// ---- GGUF metadata ---------------------------------------------------------------------------------------------

std::string GgufConfigReader::full_key(std::string_view key) const {
  if (key.starts_with("tokenizer.") || key.starts_with("general.")) return std::string(key);
  return architecture_ + "." + std::string(key);
}

bool GgufConfigReader::has_key(std::string_view key) const {
  return metadata_.find(full_key(key)) != nullptr;
}

Result<std::vector<int64_t>> GgufConfigReader::read_ints(std::string_view key) const {
  return metadata_.get_ints(full_key(key));
}

Result<std::vector<double>> GgufConfigReader::read_floats(std::string_view key) const {
  return metadata_.get_floats(full_key(key));
}

Result<bool> GgufConfigReader::read_bool(std::string_view key) const {
  return metadata_.get_bool(full_key(key));
}

Result<std::vector<std::string>> GgufConfigReader::read_strings(std::string_view key) const {
  if (auto one = metadata_.get_string(full_key(key))) return std::vector<std::string>{std::move(*one)};
  auto list = metadata_.get_strings(full_key(key));
  if (!list) return std::unexpected(std::move(list).error());
  return **list;
}

}  // namespace quern
