// Sends spans to a collector (OTLP over HTTP, JSON) from a thread of its own. Whoever ends a request only puts its span
// into a bounded queue: a slow or dead collector costs spans, which are counted, and never an answer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "server/log.h"
#include "server/metrics/metrics.h"
#include "server/tracing/settings.h"

namespace quern {

class SpanExporter {
 public:
  // `counts` and `log` must outlive the exporter.
  SpanExporter(TracingSettings settings, SpanCounts& counts, const Log& log);
  ~SpanExporter() { stop(); }

  void add(RequestSpan span);  // any thread; never waits for the collector
  // Sends what waits, for a few seconds at most, and ends the thread.
  void stop();

 private:
  void run();
  std::vector<RequestSpan> take_batch();
  void send(const std::vector<RequestSpan>& batch);
  Status try_send(const std::string& body);
  bool pause(std::chrono::milliseconds time);  // false: the exporter stops
  bool out_of_time() const;

  const TracingSettings settings_;
  SpanCounts& counts_;
  const Log& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RequestSpan> waiting_;                           // guarded by mutex_
  bool stopping_ = false;                                     // guarded by mutex_
  std::atomic<std::chrono::steady_clock::rep> deadline_ = 0;  // ticks; 0: none
  bool failing_ = false;                                      // the thread's own
  std::thread thread_;
};

}  // namespace quern
