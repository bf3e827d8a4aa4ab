// Parts of a job's files. Internal to platform/jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern {

// Errors: kIo, also when the file ends before.
Result<std::string> read_at(const std::filesystem::path& path, int64_t offset, int64_t bytes);
// On the disk when it returns; the file ends behind `text`.
Status write_at(const std::filesystem::path& path, int64_t offset, std::string_view text);
// The whole file at once, or what was there before.
Status replace_file(const std::filesystem::path& path, std::string_view text);

}  // namespace quern
