#include "server/compile.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/status.h"

namespace quern {
namespace {

namespace asio = http::asio;
using Compiled = Result<std::shared_ptr<const Grammar>>;

constexpr int kWaitingMax = 64;

asio::thread_pool& compilers() {
  static asio::thread_pool pool(1);  // grammars must not take the machine from those who decode
  return pool;
}

asio::awaitable<Compiled> compile(Engine* engine, const GrammarSpec* spec) {
  co_return engine->compile_grammar(*spec);
}

}  // namespace

asio::awaitable<ApiResult<std::shared_ptr<const Grammar>>> compile_grammar(Engine& engine, const GrammarSpec& spec,
                                                                           const std::string& param) {
  static std::atomic<int> waiting = 0;
  if (waiting.fetch_add(1) >= kWaitingMax) {
    waiting.fetch_sub(1);
    ApiError busy;
    busy.status = 429;
    busy.type = "rate_limit_error";
    busy.message = "too many grammars wait to be compiled";
    co_return std::unexpected(std::move(busy));
  }
  Compiled compiled = co_await asio::co_spawn(compilers(), compile(&engine, &spec), asio::use_awaitable);
  waiting.fetch_sub(1);
  if (compiled) co_return std::move(*compiled);
  ApiError error = to_api_error(compiled.error());
  error.param = param;
  error.message = fmt::format("{}: {}", param, error.message);
  co_return std::unexpected(std::move(error));
}

}  // namespace quern
