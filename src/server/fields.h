// Reads the fields of a JSON request with their types and ranges. The first fault is kept, with the field's name; after
// it every look-up gives nothing. null counts as absent. Fields that nobody asked for can be named at the end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/api_error.h"

namespace quern {

class Fields {
 public:
  explicit Fields(const Json& object);  // not an object: a fault at once

  std::optional<double> number(std::string_view name, double min, double max);  // both ends included
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  std::optional<std::vector<std::string>> string_or_strings(std::string_view name, size_t count_max);
  std::optional<std::vector<int64_t>> integers(std::string_view name, int64_t min, int64_t max, size_t count_max);
  const Json* object(std::string_view name);
  const Json* array(std::string_view name);
  const Json* any(std::string_view name);  // nullptr when absent or null

  void accept(std::initializer_list<std::string_view> names);  // known, without effect here
  void fault(std::string_view param, std::string message);     // keeps the first
  void refuse_unknown();                                       // a fault for a field that nothing asked for

  bool ok() const { return !error_; }
  ApiError take_error();  // only when not ok()

 private:
  const Json* find(std::string_view name);

  const Json* object_ = nullptr;
  std::set<std::string, std::less<>> asked_;
  std::optional<ApiError> error_;
};

}  // namespace quern
