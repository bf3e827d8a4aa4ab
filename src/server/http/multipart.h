// multipart/form-data (RFC 7578), as browsers and clients send files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern::http {

struct FormPart {
  std::string name;
  std::string filename;  // empty: a plain field
  std::string content_type;
  std::string_view body;  // into the text that was parsed
};

// Whether a content type says so; the one question that everybody asks who reads a body.
bool is_multipart(std::string_view content_type);

// At most parts_max parts. kInvalidArgument for another content type or a body that does not fit its boundary.
Result<std::vector<FormPart>> parse_multipart(std::string_view content_type, std::string_view body,
                                              size_t parts_max = 64);

}  // namespace quern::http
