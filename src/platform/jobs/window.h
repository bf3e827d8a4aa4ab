// When a job may run: parts of the week, in minutes of local time. Pure.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quern/status.h"

namespace quern {

inline constexpr int32_t kMinutesOfDay = 24 * 60;
inline constexpr int32_t kMinutesOfWeek = 7 * kMinutesOfDay;

class Window {
 public:
  // "22:00-06:00", "mon-fri 22:00-06:00, sat+sun 00:00-24:00"; empty: always open. A part that passes midnight belongs
  // to the day it begins on. Errors: kInvalidArgument naming the part.
  static Result<Window> parse(std::string_view text);

  // Minutes since Monday 00:00.
  bool is_open(int32_t minute_of_week) const { return always_ || open_.test(static_cast<size_t>(minute_of_week)); }
  int32_t minutes_until_open(int32_t minute_of_week) const;  // 0: now

 private:
  bool always_ = true;
  std::bitset<kMinutesOfWeek> open_;
};

// Of the server's local time.
int32_t minute_of_week(int64_t unix_seconds);

}  // namespace quern
