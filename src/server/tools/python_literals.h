// The little of Python that models write when they call a tool: calls with keyword arguments, and literals.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quern::tools {

struct PythonCall {
  std::string name;
  Json arguments = Json::object();
};

// `[f(a=1), g(b=[2.5, None, {"k": 'v'}])]`, or calls without the list, separated by commas, blanks or line breaks; a
// `print(…)` around one is looked through. What ends in the middle of a call gives the whole ones before it. nullopt:
// something else.
std::optional<std::vector<PythonCall>> parse_python_calls(std::string_view text);

}  // namespace quern::tools
