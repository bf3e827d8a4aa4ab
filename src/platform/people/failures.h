// Who has failed too often to be heard: failures in a window lead to a ban. Bounded, whoever asks. Time is an argument,
// in seconds. Not thread-safe: People holds its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace quern::people {

struct FailureRule {
  int32_t failures_max = 10;  // the one that makes as many in the window brings the ban
  int64_t window_s = 300;
  int64_t ban_s = 3600;
};

struct Ban {
  std::string subject;  // an address, "user:NAME" or "key:DIGEST"
  int64_t until = 0;
};

class FailureTable {
 public:
  FailureTable(const FailureRule& rule, size_t entries_max) : rule_(rule), entries_max_(entries_max) {}

  bool count(const std::string& subject, int64_t now);                  // true: now it is banned
  int64_t banned_until(const std::string& subject, int64_t now) const;  // 0: it is not
  void ban(const std::string& subject, int64_t until, int64_t now);     // by hand
  bool forget(const std::string& subject) { return entries_.erase(subject) > 0; }
  std::vector<Ban> bans(int64_t now) const;
  size_t size() const { return entries_.size(); }
  const FailureRule& rule() const { return rule_; }

 private:
  struct Entry {
    std::deque<int64_t> failures;  // within the window, oldest first; at most failures_max
    int64_t until = 0;             // banned
  };
  Entry& entry_of(const std::string& subject, int64_t now);
  void make_room(int64_t now);

  FailureRule rule_;
  size_t entries_max_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace quern::people
