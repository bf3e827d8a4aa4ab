// `--cases FILE`: one JSON object in, one JSON object out, line by line; a line that fails answers {"error": …}.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "quern/status.h"

namespace quern::cli {

// `answer` gets an object. Its error, or that of a line that is not an object, becomes the line's answer.
Status answer_lines(const std::string& path, const std::function<Result<Json>(const Json&)>& answer);

// Fields of a line. kInvalidArgument naming the field when it is missing or of another kind.
Result<std::string> text_field(const Json& line, const char* name);
Result<bool> bool_field(const Json& line, const char* name, bool otherwise);
Result<std::vector<int32_t>> ids_field(const Json& line, const char* name);

Status print(const std::string& text);

}  // namespace quern::cli
