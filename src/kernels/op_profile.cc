#include "kernels/op_profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern {

std::string OpProfile::Sum::label() const {
  if (key.in == 0) return key.name;
  return fmt::format("{} {} to {} {}", key.name, key.in, key.out, dtype_info(key.dtype).name);
}

size_t OpProfile::entry_of(const OpKey& key) {
  const auto found = std::ranges::find(entries_, key, &Sum::key);
  if (found != entries_.end()) return static_cast<size_t>(found - entries_.begin());
  entries_.push_back({.key = key});
  return entries_.size() - 1;
}

void OpProfile::add(const OpKey& key, Clock::time_point begin, Clock::time_point end, double macs, double bytes) {
  if (!enabled_) return;
  const size_t index = entry_of(key);
  Sum& sum = entries_[index];
  ++sum.calls;
  sum.seconds += std::chrono::duration<double>(end - begin).count();
  sum.macs += macs;
  sum.bytes += bytes;
  if (spans_.size() < spans_max_) {
    spans_.push_back({index, begin, end});
  } else {
    ++spans_left_out_;
  }
}

void OpProfile::clear_sums() {
  for (Sum& sum : entries_) sum = {.key = sum.key};
}

void OpProfile::clear() {
  clear_sums();
  spans_.clear();
  spans_left_out_ = 0;
}

std::vector<OpProfile::Sum> OpProfile::sums() const {
  std::vector<Sum> sums;
  std::ranges::copy_if(entries_, std::back_inserter(sums), [](const Sum& sum) { return sum.calls > 0; });
  std::ranges::stable_sort(sums, std::greater(), &Sum::seconds);
  return sums;
}

std::string OpProfile::trace_json() const {
  std::vector<std::string> labels;
  for (const Sum& entry : entries_) labels.push_back(entry.label());
  const auto micros = [this](Clock::time_point time) {
    return std::chrono::duration<double, std::micro>(time - spans_.front().begin).count();
  };
  std::string json = R"({"displayTimeUnit":"ns","traceEvents":[)";
  json += R"({"name":"process_name","ph":"M","pid":1,"tid":1,"args":{"name":"quern bench"}})";
  for (const Span& span : spans_) {
    const double begin = micros(span.begin);
    json += fmt::format(R"(,{{"name":"{}","cat":"op","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":1,"tid":1}})",
                        labels[span.entry], begin, micros(span.end) - begin);
  }
  json += "]}\n";
  return json;
}

}  // namespace quern
