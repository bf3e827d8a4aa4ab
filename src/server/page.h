// The chat page, built into the binary from web/index.html.
#pragma once

#include <string_view>

namespace quern {

std::string_view page_html();

}  // namespace quern
