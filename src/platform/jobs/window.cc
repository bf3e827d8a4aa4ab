#include "platform/jobs/window.h"

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/json.h"
#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kPartsMax = 16;
constexpr std::array<std::string_view, 7> kDays = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
using Days = std::bitset<7>;

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// What stands before `mark`; `text` keeps what stands behind it.
std::string_view take_until(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

std::optional<int32_t> day_of(std::string_view text) {
  for (size_t i = 0; i < kDays.size(); ++i) {
    const bool fits = text.size() >= 3 && std::tolower(static_cast<unsigned char>(text[0])) == kDays[i][0] &&
                      std::tolower(static_cast<unsigned char>(text[1])) == kDays[i][1] &&
                      std::tolower(static_cast<unsigned char>(text[2])) == kDays[i][2] && text.size() == 3;
    if (fits) return static_cast<int32_t>(i);
  }
  return std::nullopt;
}

// "mon-fri", "sat+sun", "fri-mon+wed".
std::optional<Days> days_of(std::string_view text) {
  Days days;
  while (!text.empty()) {
    std::string_view range = take_until(text, '+');
    const bool is_range = range.find('-') != std::string_view::npos;
    const auto first = day_of(take_until(range, '-'));
    const auto last = is_range ? day_of(range) : first;
    if (!first || !last) return std::nullopt;
    for (int32_t day = *first;; day = (day + 1) % 7) {
      days.set(static_cast<size_t>(day));
      if (day == *last) break;
    }
  }
  return days.none() ? std::nullopt : std::optional(days);
}

// "06:30", up to "24:00".
std::optional<int32_t> minute_of(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  int32_t hours = 0, minutes = 0;
  for (const auto& [at, target] : {std::pair(0, &hours), std::pair(3, &minutes)}) {
    const char* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + 2, *target);
    if (error != std::errc() || end != begin + 2 || *target < 0) return std::nullopt;
  }
  const int32_t minute = hours * 60 + minutes;
  if (minutes > 59 || minute > kMinutesOfDay) return std::nullopt;
  return minute;
}

bool add_part(std::string_view part, std::bitset<kMinutesOfWeek>& open) {
  std::optional<Days> days = Days().set();
  if (part.find(' ') != std::string_view::npos) days = days_of(take_until(part, ' '));
  part = without_blanks(part);
  const auto begin = minute_of(take_until(part, '-'));
  const auto end = minute_of(part);
  if (!days || !begin || !end || *begin == kMinutesOfDay || *begin == *end) return false;
  const int32_t length = *end > *begin ? *end - *begin : *end - *begin + kMinutesOfDay;
  for (int32_t day = 0; day < 7; ++day) {
    if (!days->test(static_cast<size_t>(day))) continue;
    for (int32_t i = 0; i < length; ++i) {
      open.set(static_cast<size_t>((day * kMinutesOfDay + *begin + i) % kMinutesOfWeek));
    }
  }
  return true;
}

}  // namespace

Result<Window> Window::parse(std::string_view text) {
  Window window;
  text = without_blanks(text);
  for (size_t parts = 0; !text.empty(); ++parts) {
    window.always_ = false;
    const std::string_view part = without_blanks(take_until(text, ','));
    if (parts == kPartsMax) return invalid_argument(fmt::format("window: has over {} parts", kPartsMax));
    if (!add_part(part, window.open_)) {
      return invalid_argument(
          fmt::format("window: {} is none: [DAYS] HH:MM-HH:MM, as 22:00-06:00 or mon-fri 22:00-06:00",
                      dump_json(Json(part.substr(0, 40)))));
    }
  }
  return window;
}

int32_t Window::minutes_until_open(int32_t minute_of_week) const {
  int32_t minutes = 0;
  while (!is_open((minute_of_week + minutes) % kMinutesOfWeek)) ++minutes;  // a window has an open minute
  return minutes;
}

int32_t minute_of_week(int64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return (parts.tm_wday + 6) % 7 * kMinutesOfDay + parts.tm_hour * 60 + parts.tm_min;
}

}  // namespace quern
