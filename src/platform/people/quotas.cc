#include "platform/people/quotas.h"

#include <algorithm>
#include <cmath>

namespace quern::people {
namespace {

constexpr int64_t kMinuteMs = 60'000, kDayMs = 86'400'000;

int64_t ms_until(double level, double wanted, int64_t limit) {
  if (level >= wanted) return 0;
  return static_cast<int64_t>(std::ceil((wanted - level) * kMinuteMs / static_cast<double>(limit)));
}

Allowance allowance_of(double level, int64_t limit) {
  return {.limit = limit,
          .remaining = std::max<int64_t>(0, static_cast<int64_t>(std::floor(level))),
          .reset_ms = ms_until(level, static_cast<double>(limit), limit)};
}

}  // namespace

void QuotaTable::Bucket::fill(int64_t limit, int64_t now_ms) {
  const auto full = static_cast<double>(limit);
  if (at_ms < 0) {
    level = full;
  } else if (now_ms > at_ms) {
    level = std::min(full, level + full * static_cast<double>(now_ms - at_ms) / kMinuteMs);
  }
  at_ms = std::max(at_ms, now_ms);
}

Admission QuotaTable::admit(const std::string& key, const Quotas& quotas, int64_t now_ms) {
  Counters& counters = counters_[key];
  const int64_t day = now_ms / kDayMs;
  if (counters.usage.day != day) counters.usage = {.day = day};
  Admission admission;
  const auto refuse = [&](const char* by, int64_t wait_ms) {
    if (!admission.refused_by.empty() && admission.retry_after_ms >= wait_ms) return;
    admission.refused_by = by;
    admission.retry_after_ms = wait_ms;
  };
  if (quotas.concurrent > 0 && counters.running >= quotas.concurrent) refuse("requests at once", 1000);
  if (quotas.requests_per_minute > 0) {
    counters.requests.fill(quotas.requests_per_minute, now_ms);
    const double level = counters.requests.level;
    if (level < 1) refuse("requests per minute", ms_until(level, 1, quotas.requests_per_minute));
  }
  if (quotas.tokens_per_minute > 0) {
    counters.tokens.fill(quotas.tokens_per_minute, now_ms);
    const double level = counters.tokens.level;
    if (level < 1) refuse("tokens per minute", ms_until(level, 1, quotas.tokens_per_minute));
    admission.tokens = allowance_of(level, quotas.tokens_per_minute);
  }
  const bool day_spent = quotas.tokens_per_day > 0 && counters.usage.tokens >= quotas.tokens_per_day;
  if (day_spent) refuse("tokens per day", (day + 1) * kDayMs - now_ms);
  if (admission.refused_by.empty()) {
    counters.running += 1;
    counters.usage.requests += 1;
    counters.changed = true;
    if (quotas.requests_per_minute > 0) counters.requests.level -= 1;
  }
  if (quotas.requests_per_minute > 0) {
    admission.requests = allowance_of(counters.requests.level, quotas.requests_per_minute);
  }
  // The day's limit is what a client should know of when there is less left of it than of the minute's.
  const int64_t day_left = std::max<int64_t>(0, quotas.tokens_per_day - counters.usage.tokens);
  if (quotas.tokens_per_day > 0 && (quotas.tokens_per_minute == 0 || day_left < admission.tokens.remaining)) {
    admission.tokens = {.limit = quotas.tokens_per_day, .remaining = day_left, .reset_ms = (day + 1) * kDayMs - now_ms};
  }
  return admission;
}

void QuotaTable::done(const std::string& key, const Quotas& quotas, int64_t tokens, int64_t now_ms) {
  const auto found = counters_.find(key);
  if (found == counters_.end()) return;  // the key was taken away meanwhile
  Counters& counters = found->second;
  counters.running = std::max<int64_t>(0, counters.running - 1);
  const int64_t day = now_ms / kDayMs;
  if (counters.usage.day != day) counters.usage = {.day = day};
  counters.usage.tokens += tokens;
  counters.changed = true;
  if (quotas.tokens_per_minute <= 0) return;
  counters.tokens.fill(quotas.tokens_per_minute, now_ms);
  counters.tokens.level -= static_cast<double>(tokens);
}

void QuotaTable::set_usage(const std::string& key, const Usage& usage) {
  counters_[key].usage = usage;
}

Usage QuotaTable::usage(const std::string& key, int64_t now_ms) const {
  const int64_t day = now_ms / kDayMs;
  const auto found = counters_.find(key);
  if (found == counters_.end() || found->second.usage.day != day) return {.day = day};
  return found->second.usage;
}

std::vector<std::pair<std::string, Usage>> QuotaTable::take_changed() {
  std::vector<std::pair<std::string, Usage>> changed;
  for (auto& [key, counters] : counters_) {
    if (!counters.changed) continue;
    counters.changed = false;
    changed.emplace_back(key, counters.usage);
  }
  return changed;
}

}  // namespace quern::people
