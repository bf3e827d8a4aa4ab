#include "server/offload.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace quern {

namespace {

http::asio::thread_pool& side_threads() {
  static http::asio::thread_pool pool(2);
  return pool;
}

}  // namespace

void run_offloaded(std::function<void()> work) {
  http::asio::post(side_threads(), std::move(work));
}

http::asio::any_io_executor side_executor() {
  return side_threads().get_executor();
}

}  // namespace quern
