// Fields of a JSON object from outside, read one by one with bounds. An error says which field: "variants[2].format:
// …".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

inline constexpr size_t kTextMax = 1024;  // bytes of a field, unless the reader says else; more than that may be lines
inline constexpr size_t kListMax = 512;   // elements

class JsonFields {
 public:
  // `json` must outlive the reader; `where` stands before the names of fields: "models[3]", or "" at the top.
  static Result<JsonFields> of(const Json& json, std::string where);

  bool has(const char* key) const;
  std::string name(std::string_view key) const;  // "models[3].key"
  // Present, of the type and within its bounds; `or` variants: or absent (null counts as absent).
  Result<std::string> text(const char* key, size_t bytes_max = kTextMax) const;
  Result<std::string> text_or(const char* key, std::string_view otherwise, size_t bytes_max = kTextMax) const;
  Result<int64_t> integer_or(const char* key, int64_t otherwise, int64_t low, int64_t high) const;
  Result<double> number_or(const char* key, double otherwise, double low, double high) const;
  Result<std::vector<std::string>> texts_or_none(const char* key, size_t count_max = kListMax,
                                                 size_t bytes_max = kTextMax) const;
  // An array of objects; absent: empty.
  Result<std::vector<JsonFields>> objects(const char* key, size_t count_max = kListMax) const;
  Result<JsonFields> object(const char* key) const;  // kInvalidArgument when absent
  // Fields of an object whose names are data.
  std::vector<std::string> keys() const;

  // kInvalidArgument names the first field that is none of these.
  Status only(std::initializer_list<std::string_view> known) const;
  std::unexpected<Error> refuse(std::string_view key, std::string_view why) const;
  const Json& json() const { return *json_; }

 private:
  JsonFields(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}
  const Json* find(const char* key) const;  // null: absent

  const Json* json_;
  std::string where_;
};

}  // namespace quern
