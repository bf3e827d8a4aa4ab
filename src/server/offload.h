// Work that would hold an I/O thread too long (tokenising a large body) runs on side threads; the coroutine waits.
#pragma once

#include <boost/asio/this_coro.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "server/http/message.h"

namespace quern {

void run_offloaded(std::function<void()> work);  // on one of a few side threads, soon
http::asio::any_io_executor side_executor();     // of those threads

// `work` may refer to the caller's frame: the caller is not resumed before it has ended. What it throws is thrown here.
// It must live until then: a local of the caller, not a temporary.
template <class T>
http::asio::awaitable<T> offload(const std::function<T()>& work) {
  const auto executor = co_await http::asio::this_coro::executor;
  const auto signal = std::make_shared<http::Signal>(executor);
  std::optional<T> result;
  std::exception_ptr failure;
  run_offloaded([&result, &failure, &work, signal] {
    try {
      result.emplace(work());
    } catch (...) {
      failure = std::current_exception();
    }
    signal->notify();
  });
  co_await signal->wait();
  if (failure) std::rethrow_exception(failure);
  co_return std::move(*result);
}

}  // namespace quern
