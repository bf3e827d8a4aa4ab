#include "server/http/message.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace quern::http {

std::optional<std::string_view> Request::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> Request::query_value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

void Signal::notify() {
  asio::post(timer_.get_executor(), [self = shared_from_this()] {
    self->set_ = true;
    self->timer_.cancel();
    if (self->hook_) self->hook_();
  });
}

asio::awaitable<void> Signal::wait() {
  if (!set_) {
    timer_.expires_at(asio::steady_timer::time_point::max());
    boost::system::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  set_ = false;
}

}  // namespace quern::http
