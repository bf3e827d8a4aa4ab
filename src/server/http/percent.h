// %41 is A: in paths, queries, and lists of W3C baggage.
#pragma once

#include <string>
#include <string_view>

namespace quern::http {

// What is no code stays as it is.
std::string percent_decode(std::string_view text, bool plus_is_space);

}  // namespace quern::http
