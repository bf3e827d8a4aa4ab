// A folder of this process for what can only be read from files; removed at exit.
#pragma once

#include <filesystem>
#include <string_view>

namespace quern::fuzz {

std::filesystem::path scratch_file(std::string_view name, std::string_view bytes);

}  // namespace quern::fuzz
