// JSON from outside: read without recursion, with bounds on depth, bytes and the number of values (2^22).
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

// Errors: kInvalidArgument, one line: "`what`: not JSON: … at byte 17". Invalid UTF-8, lone surrogates, NUL: refused.
// Duplicate keys: the last one wins, in the place of the first. Time is O(n log n) in the bytes.
Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// Text for the wire: UTF-8 as it is, invalid bytes replaced by U+FFFD, no spaces (indent < 0).
std::string dump_json(const Json& value, int indent = -1);

}  // namespace quern
