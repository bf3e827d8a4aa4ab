// Runs batches, one after another, behind whatever clients wait for: a few lines at a time, at the lowest priority.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "server/background.h"
#include "server/batches/store.h"
#include "server/log.h"
#include "server/route.h"

namespace quern::batches {

class BatchRunner {
 public:
  // Runs one request through the server's own routes.
  using Serve = std::function<http::asio::awaitable<void>(http::Request&, http::Reply&)>;

  // lock_path: a file beside the database, empty when no other process can see it.
  BatchRunner(BatchStore& store, Background& background, const Log& log, Serve serve, std::string lock_path)
      : store_(store), background_(background), log_(log), serve_(std::move(serve)), lock_path_(std::move(lock_path)) {}
  ~BatchRunner();

  void start();
  void wake();  // there is something new
  void stop();  // lines that run are given up and run again after the next start

 private:
  struct Line;
  bool holds_lock();
  void run();
  // true: something was done.
  Result<bool> work();
  Result<bool> work_on(Json batch);
  Status run_lines(const std::string& batch_id, const std::string& endpoint, std::vector<OpenLine> lines);
  Status finish(Json batch, const char* status);
  bool wait(std::chrono::milliseconds time);  // false: stopping

  BatchStore& store_;
  Background& background_;
  const Log& log_;
  Serve serve_;
  const std::string lock_path_;
  int lock_fd_ = -1;  // of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, woken_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace quern::batches
