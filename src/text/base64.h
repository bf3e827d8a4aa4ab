// Base64 (RFC 4648, section 4), as tokenizer.json carries binary tables.
#pragma once

#include <string>
#include <string_view>

namespace quern {

std::string base64_encode(std::string_view bytes);

}  // namespace quern
