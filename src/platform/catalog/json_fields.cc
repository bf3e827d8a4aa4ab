#include "platform/catalog/json_fields.h"

#include <algorithm>

#include "base/status.h"

namespace quern {
namespace {

// A name from outside goes into a message of one line.
std::string shown(std::string_view key) {
  std::string text(key.substr(0, 64));
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

// Short texts may stand in a message or a list: one line.
bool is_clean(const std::string& text, size_t bytes_max) {
  return std::ranges::none_of(text, [&](unsigned char c) {
    const bool breaks = c == '\n' || c == '\t' || c == '\r';
    return (c < 0x20 && !(breaks && bytes_max > kTextMax)) || c == 0x7f;
  });
}

}  // namespace

Result<JsonFields> JsonFields::of(const Json& json, std::string where) {
  if (!json.is_object()) {
    return invalid_argument(fmt::format("{}: must be an object", where.empty() ? "the document" : where));
  }
  return JsonFields(json, std::move(where));
}

const Json* JsonFields::find(const char* key) const {
  const auto it = json_->find(key);
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

bool JsonFields::has(const char* key) const {
  return find(key) != nullptr;
}

std::string JsonFields::name(std::string_view key) const {
  return where_.empty() ? shown(key) : where_ + "." + shown(key);
}

std::unexpected<Error> JsonFields::refuse(std::string_view key, std::string_view why) const {
  return invalid_argument(fmt::format("{}: {}", name(key), why));
}

Result<std::string> JsonFields::text(const char* key, size_t bytes_max) const {
  if (!has(key)) return refuse(key, "is missing");
  return text_or(key, "", bytes_max);
}

Result<std::string> JsonFields::text_or(const char* key, std::string_view otherwise, size_t bytes_max) const {
  const Json* value = find(key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) return refuse(key, "must be a string");
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > bytes_max) return refuse(key, fmt::format("{} bytes, at most {}", text.size(), bytes_max));
  if (!is_clean(text, bytes_max)) return refuse(key, "has control characters");
  return text;
}

Result<int64_t> JsonFields::integer_or(const char* key, int64_t otherwise, int64_t low, int64_t high) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const bool fits = value->is_number_integer() && (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX);
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    return refuse(key, fmt::format("must be an integer from {} to {}", low, high));
  }
  return value->get<int64_t>();
}

Result<double> JsonFields::number_or(const char* key, double otherwise, double low, double high) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
    return refuse(key, fmt::format("must be a number from {} to {}", low, high));
  }
  return value->get<double>();
}

Result<std::vector<std::string>> JsonFields::texts_or_none(const char* key, size_t count_max, size_t bytes_max) const {
  std::vector<std::string> texts;
  const Json* value = find(key);
  if (value == nullptr) return texts;
  if (!value->is_array()) return refuse(key, "must be a list");
  if (value->size() > count_max) return refuse(key, fmt::format("{} elements, at most {}", value->size(), count_max));
  for (size_t i = 0; i < value->size(); ++i) {
    const Json& element = (*value)[i];
    const std::string at = fmt::format("{}[{}]", key, i);
    if (!element.is_string()) return refuse(at, "must be a string");
    const auto& text = element.get_ref<const std::string&>();
    if (text.size() > bytes_max) return refuse(at, fmt::format("{} bytes, at most {}", text.size(), bytes_max));
    if (!is_clean(text, bytes_max)) return refuse(at, "has control characters");
    texts.push_back(text);
  }
  return texts;
}

Result<std::vector<JsonFields>> JsonFields::objects(const char* key, size_t count_max) const {
  std::vector<JsonFields> fields;
  const Json* value = find(key);
  if (value == nullptr) return fields;
  if (!value->is_array()) return refuse(key, "must be a list");
  if (value->size() > count_max) return refuse(key, fmt::format("{} elements, at most {}", value->size(), count_max));
  for (size_t i = 0; i < value->size(); ++i) {
    QUERN_ASSIGN(JsonFields one, of((*value)[i], fmt::format("{}[{}]", name(key), i)));
    fields.push_back(std::move(one));
  }
  return fields;
}

Result<JsonFields> JsonFields::object(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return refuse(key, "is missing");
  return of(*value, name(key));
}

std::vector<std::string> JsonFields::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : json_->items()) keys.push_back(item.key());
  return keys;
}

Status JsonFields::only(std::initializer_list<std::string_view> known) const {
  for (const auto& item : json_->items()) {
    if (std::ranges::find(known, std::string_view(item.key())) == known.end()) return refuse(item.key(), "is unknown");
  }
  return {};
}

}  // namespace quern
