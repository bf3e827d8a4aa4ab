#include "base/json.h"

#include "base/status.h"

namespace quern {
namespace {

// Deepest nesting of arrays and objects in `text`, found without recursion. Brackets inside strings do not count.
size_t nesting_depth(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return deepest;
}

// nlohmann's message without its library prefix, on one line.
std::string short_reason(const char* what) {
  std::string reason = what;
  if (const size_t end = reason.find("] "); reason.starts_with('[') && end != std::string::npos) {
    reason.erase(0, end + 2);
  }
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return reason;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return invalid_argument(
        fmt::format("{}: JSON of {} bytes is over the limit of {}", what, text.size(), limits.bytes_max));
  }
  if (const size_t depth = nesting_depth(text); depth > limits.depth_max) {
    return invalid_argument(
        fmt::format("{}: JSON nested {} deep is over the limit of {}", what, depth, limits.depth_max));
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("{}: not JSON: {}", what, short_reason(error.what())));
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quern
