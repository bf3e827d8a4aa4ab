// Tools of a request and calls of earlier turns, as all dialects check them; each says where in its bodies they stand.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "server/api_error.h"
#include "server/tools/tool_grammar.h"

namespace quern {

struct ToolList {
  Json shown;                      // for the template: as OpenAI writes them, or null
  std::vector<tools::Tool> tools;  // that may be called
  tools::ToolChoice choice = tools::ToolChoice::kNone;
  bool parallel = true;
};

inline constexpr size_t kToolsMax = 128;

// `function` has a name and perhaps a schema of its arguments, called `schema_key`. `param` names it in errors.
ApiResult<void> add_function(ToolList& list, const Json& function, const std::string& param,
                             const char* schema_key = "parameters");
// {"type":"function","function":{…}}, for ToolList::shown.
Json shown_function(const Json& function, const char* schema_key = "parameters");

// A list of {"type":"function","function":{…}}, to be called as the model likes.
ApiResult<void> add_tools(ToolList& result, const Json& list);

// What tool_choice may say. 400 with `param` when there is no such tool.
// auto, none and required, as OpenAI's dialects write them; false when `choice` is none of these words.
ApiResult<bool> read_choice_word(const Json& choice, ToolList& list);
void hide_tools(ToolList& list);
ApiResult<void> require_call(ToolList& list, const std::string& param);
ApiResult<void> require_named(ToolList& list, const Json& name, const std::string& param);  // that one, once

// JSON text of an object, an object, or nothing, which is {}.
ApiResult<Json> object_arguments(const Json& arguments, const std::string& param);
// Calls of an earlier turn, as templates want them: the arguments of message["tool_calls"] are objects.
ApiResult<void> normalize_calls(Json& message, const std::string& param);

}  // namespace quern
