// Where the time of a device's operations goes: sums by operation and shape, and the spans themselves for a trace.
// Written by one thread (the engine's).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace quern {

// What an operation is summed under. `name` must outlive the profile (a literal).
struct OpKey {
  const char* name = nullptr;
  int64_t in = 0;   // elements of a row it reads, of a weight; 0: no weight
  int64_t out = 0;  // of a row it writes
  DType dtype = DType::kF32;
  bool operator==(const OpKey&) const = default;
};

class OpProfile {
 public:
  using Clock = std::chrono::steady_clock;
  // Spans past `spans_max` are left out of the trace; sums count them.
  explicit OpProfile(size_t spans_max) : spans_max_(spans_max) {}

  // Nothing is entered while it is off, as it is at first.
  void set_enabled(bool enabled) { enabled_ = enabled; }

  // macs: multiply-adds. bytes: of weights or of the KV cache that were read.
  void add(const OpKey& key, Clock::time_point begin, Clock::time_point end, double macs, double bytes);
  void clear_sums();
  void clear();  // spans as well

  struct Sum {
    OpKey key;
    int64_t calls = 0;
    double seconds = 0;
    double macs = 0;
    double bytes = 0;
    std::string label() const;  // "matmul 576 to 1536 Q4_1"
  };
  std::vector<Sum> sums() const;  // the most expensive first

  int64_t spans_left_out() const { return spans_left_out_; }
  // All spans since clear() as complete events of the trace event format, which Perfetto and chrome://tracing open
  // (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
  std::string trace_json() const;

 private:
  struct Span {
    size_t entry;
    Clock::time_point begin;
    Clock::time_point end;
  };
  size_t entry_of(const OpKey& key);

  size_t spans_max_;
  bool enabled_ = false;
  std::vector<Sum> entries_;  // a few dozen; sums since the last clear
  std::vector<Span> spans_;
  int64_t spans_left_out_ = 0;
};

// Measures its own lifetime.
class OpTimer {
 public:
  OpTimer(OpProfile& profile, const OpKey& key, double macs = 0, double bytes = 0)
      : profile_(profile), key_(key), macs_(macs), bytes_(bytes), begin_(OpProfile::Clock::now()) {}
  ~OpTimer() { profile_.add(key_, begin_, OpProfile::Clock::now(), macs_, bytes_); }
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

 private:
  OpProfile& profile_;
  OpKey key_;
  double macs_;
  double bytes_;
  OpProfile::Clock::time_point begin_;
};

}  // namespace quern
