// Questions to workers whether they are well, all in flight at once, without a thread for each (libcurl's multi
// interface); and the place where the fleet's thread sleeps. One thread uses it; wake() is for the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quern/status.h"

namespace quern {

struct ProbeTarget {
  std::string address;  // "unix:/…/w.sock", "http://127.0.0.1:4711", "https://host", with #sha256//… that key alone
  std::string path;     // "/health"
  std::string api_key;  // empty: none
  bool direct = false;  // no proxy stands between
};

class WorkerProbes {
 public:
  static Result<std::unique_ptr<WorkerProbes>> create();
  ~WorkerProbes();

  // `id` must not be under way. No answer within `timeout` is an answer of status 0.
  void ask(uint64_t id, const ProbeTarget& target, std::chrono::milliseconds timeout);
  bool is_asking(uint64_t id) const { return asked_.contains(id); }
  void forget(uint64_t id);

  struct Answer {
    uint64_t id = 0;
    int32_t status = 0;  // of HTTP; 0: none
  };
  // Returns when an answer has come, a file is readable, wake() was called or the time is up.
  std::vector<Answer> wait(std::span<const int> files, std::chrono::milliseconds timeout);
  void wake();  // thread-safe

 private:
  struct Question;
  WorkerProbes() = default;
  std::vector<Answer> collect();

  void* multi_ = nullptr;  // CURLM
  std::map<uint64_t, std::unique_ptr<Question>> asked_;
};

}  // namespace quern
