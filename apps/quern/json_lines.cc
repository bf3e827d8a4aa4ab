#include "json_lines.h"

#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "input.h"

namespace quern::cli {

Status print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return io_error("cannot write to stdout");
  }
  return {};
}

Status answer_lines(const std::string& path, const std::function<Result<Json>(const Json&)>& answer) {
  const auto answer_line = [&](std::string_view line, size_t number) -> Result<Json> {
    const std::string where = fmt::format("{}:{}", input_name(path), number);
    QUERN_ASSIGN(const Json object, parse_json(line, where));
    if (!object.is_object()) return invalid_argument(fmt::format("{}: not an object", where));
    return answer(object);
  };
  QUERN_ASSIGN(const std::string text, read_text(path));
  size_t number = 0;
  for (const std::string_view line : split_lines(text)) {
    ++number;
    if (line.empty()) continue;
    auto result = answer_line(line, number);
    if (!result) result = Json::object({{"error", result.error().message}});
    QUERN_TRY(print(dump_json(*result) + "\n"));
  }
  return {};
}

Result<std::string> text_field(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_string()) return invalid_argument(fmt::format("{} is not a string", name));
  return found->get<std::string>();
}

Result<bool> bool_field(const Json& line, const char* name, bool otherwise) {
  const auto found = line.find(name);
  if (found == line.end()) return otherwise;
  if (!found->is_boolean()) return invalid_argument(fmt::format("{} is not true or false", name));
  return found->get<bool>();
}

Result<std::vector<int32_t>> ids_field(const Json& line, const char* name) {
  const auto wrong = [&] { return invalid_argument(fmt::format("{} is not a list of token ids", name)); };
  const auto found = line.find(name);
  if (found == line.end() || !found->is_array()) return wrong();
  std::vector<int32_t> ids;
  ids.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_integer()) return wrong();
    const auto value = id.get<int64_t>();
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) return wrong();
    ids.push_back(static_cast<int32_t>(value));
  }
  return ids;
}

}  // namespace quern::cli
