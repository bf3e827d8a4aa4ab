// What the outputs of vendors' tools have in common: tables drawn with bars, numbers with units, words for "not known".
// Pure functions over text that may hold anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern {

inline constexpr size_t kToolDevicesMax = 256;
inline constexpr int64_t kMiB = int64_t{1} << 20;

// kInvalidFile, "TOOL: its output is not understood: WHY".
std::unexpected<Error> unreadable_output(std::string_view tool, std::string_view why);

std::string_view trimmed(std::string_view text);
std::vector<std::string_view> split_lines(std::string_view text);
// Trimmed parts between `separator`s.
std::vector<std::string_view> split_fields(std::string_view text, char separator);
// Parts between runs of two or more blanks: "0       MetaX N260     Off".
std::vector<std::string_view> split_wide(std::string_view text);
// Parts between blanks.
std::vector<std::string_view> split_words(std::string_view text);

// The cells of every line that begins with a bar: "| a | b |". A table's rules and headings come as rows, too.
std::vector<std::vector<std::string_view>> table_rows(std::string_view text);

// What a name of a device may be shown as: printable, at most 128 bytes. Bytes that are not become '?'.
std::string clean_name(std::string_view text);

// The number that a text begins with: "24564 MiB", "0%", "97.5 C". nullopt: none, or no finite one.
std::optional<double> leading_number(std::string_view text);
std::optional<int32_t> small_index(std::string_view text);  // all of the text, 0 to 1023
// "24564 MiB", "8 GB"; without a unit `unit_bytes` counts. GB, GiB and G are 2^30, as the tools mean them.
std::optional<int64_t> memory_bytes(std::string_view text, int64_t unit_bytes);
// "37 %" as 0.37; nullopt beyond 0 to 100.
std::optional<double> load_of_percent(std::string_view text);

// What stands behind `label` up to two blanks, a bar or the end of the line: "Driver Version: 2.7.0".
std::string_view value_after(std::string_view text, std::string_view label);

}  // namespace quern
