#include "text/wall_clock.h"

#include <charconv>
#include <chrono>
#include <ctime>

#include "base/status.h"

namespace quern {
namespace {

// Reads exactly `digits` digits at the front of `text` and drops them.
bool take_number(std::string_view& text, size_t digits, int& number) {
  if (text.size() < digits) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  if (error != std::errc() || end != text.data() + digits || number < 0) return false;
  text.remove_prefix(digits);
  return true;
}

bool take_char(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

int64_t local_wall_seconds() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  if (localtime_r(&now, &local) == nullptr) return now;
  return now + local.tm_gmtoff;
}

Result<int64_t> parse_iso_time(std::string_view text) {
  const auto invalid = [&] { return invalid_argument(fmt::format("time '{}' is not like 2026-03-05T09:07:03", text)); };
  std::string_view rest = text;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!take_number(rest, 4, year) || !take_char(rest, "-") || !take_number(rest, 2, month) || !take_char(rest, "-") ||
      !take_number(rest, 2, day)) {
    return invalid();
  }
  if (!rest.empty()) {
    if (!take_char(rest, "T ") || !take_number(rest, 2, hour) || !take_char(rest, ":") ||
        !take_number(rest, 2, minute)) {
      return invalid();
    }
    if (take_char(rest, ":") && !take_number(rest, 2, second)) return invalid();
    if (!rest.empty() && !take_char(rest, ".,Z+-")) return invalid();
  }
  const std::chrono::year_month_day date = {std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                            std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return invalid();
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

}  // namespace quern
