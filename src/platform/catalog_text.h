// The text of data/catalog.json, built into the binary.
#pragma once

#include <string_view>

namespace quern {

std::string_view catalog_text();

}  // namespace quern
