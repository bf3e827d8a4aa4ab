// Which version of an engine is installed.
#pragma once

#include <string>
#include <string_view>

namespace quern {

// "0.32.0", as the package beside the program says; of llama-server, which has none, what it prints itself. Empty: not
// found. Thread-safe; what was found is remembered until the program's file changes.
std::string engine_version(std::string_view engine, const std::string& program);

}  // namespace quern
