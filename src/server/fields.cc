#include "server/fields.h"

#include <cmath>

#include "base/status.h"

namespace quern {
namespace {

// The value as it may stand in an error message: short, one line.
std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text;
}

// An integer by value: 3 and 3.0 are, 1.5 and 2^64 are not.
std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(std::abs(number) <= 9.0e15) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

Fields::Fields(const Json& object) {
  if (object.is_object()) {
    object_ = &object;
  } else {
    error_ = ApiError{.message = "the request body must be a JSON object"};
  }
}

const Json* Fields::find(std::string_view name) {
  asked_.emplace(name);
  if (error_) return nullptr;
  const auto place = object_->find(name);
  return place == object_->end() || place->is_null() ? nullptr : &*place;
}

std::optional<double> Fields::number(std::string_view name, double min, double max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max)) {
    fault(name, fmt::format("{}: {} is not a number in [{}, {}]", name, shown(*value), min, max));
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t min, int64_t max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (!number || *number < min || *number > max) {
    fault(name, fmt::format("{}: {} is not an integer in [{}, {}]", name, shown(*value), min, max));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    fault(name, fmt::format("{}: {} is not true or false", name, shown(*value)));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> Fields::string(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fault(name, fmt::format("{}: {} is not a string", name, shown(*value)));
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> Fields::string_or_strings(std::string_view name, size_t count_max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array() || value->size() > count_max) {
    fault(name, fmt::format("{}: {} is not a string or a list of at most {} strings", name, shown(*value), count_max));
    return std::nullopt;
  }
  std::vector<std::string> strings;
  for (const Json& item : *value) {
    if (!item.is_string()) {
      fault(name, fmt::format("{}: {} in the list is not a string", name, shown(item)));
      return std::nullopt;
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::optional<std::vector<int64_t>> Fields::integers(std::string_view name, int64_t min, int64_t max,
                                                     size_t count_max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array() || value->size() > count_max) {
    fault(name, fmt::format("{}: {} is not a list of at most {} integers", name, shown(*value), count_max));
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  numbers.reserve(value->size());
  for (const Json& item : *value) {
    const auto number = as_integer(item);
    if (!number || *number < min || *number > max) {
      fault(name, fmt::format("{}: {} in the list is not an integer in [{}, {}]", name, shown(item), min, max));
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    fault(name, fmt::format("{}: {} is not an object", name, shown(*value)));
    return nullptr;
  }
  return value;
}

const Json* Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) {
    fault(name, fmt::format("{}: {} is not a list", name, shown(*value)));
    return nullptr;
  }
  return value;
}

const Json* Fields::any(std::string_view name) {
  return find(name);
}

// Without a fault, which only our own mistake can cause, still an error and never an empty value.
ApiError Fields::take_error() {
  return error_ ? std::move(*error_) : ApiError{.message = "the request is malformed"};
}

void Fields::accept(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) asked_.emplace(name);
}

void Fields::fault(std::string_view param, std::string message) {
  if (!error_) error_ = ApiError{.message = std::move(message), .param = std::string(param)};
}

void Fields::refuse_unknown() {
  if (error_) return;
  for (const auto& item : object_->items()) {
    if (!asked_.contains(item.key())) {
      fault(item.key(), fmt::format("{}: this field is not supported", shown(Json(item.key()))));
      return;
    }
  }
}

}  // namespace quern
