#include "platform/people/failures.h"

#include <algorithm>

namespace quern::people {

// What says the least goes first: what is over, then what is not banned and failed longest ago, then the ban that ends
// first.
void FailureTable::make_room(int64_t now) {
  std::erase_if(entries_, [&](const auto& item) {
    const Entry& entry = item.second;
    const bool recent = !entry.failures.empty() && entry.failures.back() > now - rule_.window_s;
    return entry.until <= now && !recent;
  });
  if (entries_.size() < entries_max_) return;
  const auto worth = [&](const Entry& entry) {
    return std::pair(entry.until > now, entry.until > now        ? entry.until
                                        : entry.failures.empty() ? 0
                                                                 : entry.failures.back());
  };
  const auto least = std::ranges::min_element(
      entries_, [&](const auto& a, const auto& b) { return worth(a.second) < worth(b.second); });
  entries_.erase(least);
}

FailureTable::Entry& FailureTable::entry_of(const std::string& subject, int64_t now) {
  const auto found = entries_.find(subject);
  if (found != entries_.end()) return found->second;
  if (entries_.size() >= entries_max_) make_room(now);
  return entries_[subject];
}

bool FailureTable::count(const std::string& subject, int64_t now) {
  Entry& entry = entry_of(subject, now);
  if (entry.until > now) return true;
  while (!entry.failures.empty() && entry.failures.front() <= now - rule_.window_s) entry.failures.pop_front();
  entry.failures.push_back(now);
  if (std::ssize(entry.failures) < rule_.failures_max) return false;
  entry.failures.clear();
  entry.until = now + rule_.ban_s;
  return true;
}

int64_t FailureTable::banned_until(const std::string& subject, int64_t now) const {
  const auto found = entries_.find(subject);
  return found != entries_.end() && found->second.until > now ? found->second.until : 0;
}

void FailureTable::ban(const std::string& subject, int64_t until, int64_t now) {
  entry_of(subject, now).until = until;
}

std::vector<Ban> FailureTable::bans(int64_t now) const {
  std::vector<Ban> bans;
  for (const auto& [subject, entry] : entries_) {
    if (entry.until > now) bans.push_back({subject, entry.until});
  }
  std::ranges::sort(bans, {}, &Ban::subject);
  return bans;
}

}  // namespace quern::people
