// A route whose answer is JSON, made beside the threads that serve connections: it may look at the disk.
#pragma once

#include "server/offload.h"
#include "server/platform/context.h"
#include "server/route.h"

namespace quern::platform {

using JsonWork = ApiResult<Json> (*)(const Context&, const ModelTable&, const http::Request&);

inline RouteFunction json_route(const Context& context, JsonWork work) {
  return [context, work](const ModelTable& models, const http::Request& request,
                         http::Reply& reply) -> http::asio::awaitable<void> {
    const std::function<ApiResult<Json>()> run = [&] { return work(context, models, request); };
    const ApiResult<Json> json = co_await offload(run);
    if (!json) co_return co_await send_error(reply, json.error());
    co_await send_json(reply, *json);
  };
}

}  // namespace quern::platform
