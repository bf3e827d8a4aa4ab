// %41 is A: in paths, queries, and lists of W3C baggage.
#pragma once

#include <string>
#include <string_view>

namespace quern::http {

// What is no code stays as it is.
std::string percent_decode(std::string_view text, bool plus_is_space);
// Of a path or a part of a query: letters, digits and -._~/: stay (RFC 3986).
std::string percent_encode(std::string_view text);

}  // namespace quern::http
