// The clock that templates see: local wall time without a zone, as seconds since 1970-01-01T00:00:00.
#pragma once

#include <cstdint>
#include <string_view>

#include "quern/status.h"

namespace quern {

int64_t local_wall_seconds();

// "2026-03-05", "2026-03-05T09:07:03" (or a space for T), with fraction and zone allowed and not looked at.
// kInvalidArgument.
Result<int64_t> parse_iso_time(std::string_view text);

}  // namespace quern
