// Texts built into the binary: the chat page (web/index.html), the page that shows the API (web/docs.html) and its
// description (docs/openapi.json).
#pragma once

#include <string_view>

namespace quern {

std::string_view page_html();
std::string_view docs_html();
std::string_view openapi_json();

}  // namespace quern
