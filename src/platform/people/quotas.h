// How much a key may use: requests and tokens by the minute, tokens by the day, requests at once. Pure but for its own
// counters: time is an argument. Not thread-safe: People holds its lock.
//
// By the minute: a bucket that holds one minute's worth and fills steadily, so that no edge of a minute gives twice as
// much. What a request costs in tokens is known when it ends: the bucket may fall below nothing, and who is below
// nothing waits. By the day: a count that begins anew at midnight UTC.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace quern::people {

struct Quotas {  // 0: no limit
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  int64_t tokens_per_day = 0;
  int64_t concurrent = 0;
  bool any() const { return (requests_per_minute | tokens_per_minute | tokens_per_day | concurrent) != 0; }
  bool operator==(const Quotas&) const = default;
};

struct Allowance {  // as OpenAI's headers x-ratelimit-limit-…, -remaining-…, -reset-… tell it
  int64_t limit = 0, remaining = 0;
  int64_t reset_ms = 0;  // until all of it is there again
};

struct Admission {
  std::string refused_by;      // "requests per minute" …; empty: it may run, and done() is owed
  int64_t retry_after_ms = 0;  // when refused
  Allowance requests, tokens;  // limit 0: none
};

struct Usage {
  int64_t day = 0;  // since 1970
  int64_t requests = 0, tokens = 0;
};

class QuotaTable {
 public:
  Admission admit(const std::string& key, const Quotas& quotas, int64_t now_ms);
  void done(const std::string& key, const Quotas& quotas, int64_t tokens, int64_t now_ms);

  void set_usage(const std::string& key, const Usage& usage);  // what an earlier process counted
  Usage usage(const std::string& key, int64_t now_ms) const;   // of today
  std::vector<std::pair<std::string, Usage>> take_changed();   // since the last call
  void forget(const std::string& key) { counters_.erase(key); }

 private:
  struct Bucket {
    double level = 0;
    int64_t at_ms = -1;  // -1: not used yet, it is full
    void fill(int64_t limit, int64_t now_ms);
  };
  struct Counters {
    Bucket requests, tokens;
    int64_t running = 0;
    Usage usage;
    bool changed = false;
  };

  std::unordered_map<std::string, Counters> counters_;
};

}  // namespace quern::people
