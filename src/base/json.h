// JSON from outside: depth and size are bounded before nlohmann's recursive parser sees the text.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "quern/status.h"

namespace quern {

using Json = nlohmann::ordered_json;  // keeps the order of keys: templates and answers show it

struct JsonLimits {
  size_t depth_max = 128;
  size_t bytes_max = 256u << 20;
};

// Errors: kInvalidArgument, one line: "`what`: not JSON: … at byte 17". Invalid UTF-8 and lone surrogates are refused.
// Duplicate keys: the last one wins.
Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// Text for the wire: UTF-8 as it is, invalid bytes replaced by U+FFFD, no spaces (indent < 0).
std::string dump_json(const Json& value, int indent = -1);

}  // namespace quern
