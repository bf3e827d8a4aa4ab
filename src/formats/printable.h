// Text from a file, made fit for a one-line error message.
#pragma once

#include <string>
#include <string_view>

namespace quern {

// `text` in single quotes; bytes outside printable ASCII become \xNN, and what is longer than 96 bytes is cut with "…".
std::string printable(std::string_view text);

}  // namespace quern
