// Launching over HTTP, in the words of Xinference's clients and ours.
#pragma once

#include "platform/fleet/fleet.h"
#include "server/platform/context.h"
#include "server/route.h"

namespace quern::platform {

// What a query says: "wait_ready=False". kInvalidArgument for another word.
ApiResult<bool> read_flag(const http::Request& request, std::string_view name, bool otherwise);

// Launches what `body` says and answers {"model_uid"}, at once or when the model is ready: 400 for a field, 404 for a
// model that nobody knows, 409 for a name that is taken, 503 when it does not come up (it is stopped then), 499 when it
// was stopped meanwhile.
http::asio::awaitable<void> launch(const Context& context, const ModelTable& models, Json body, bool wait,
                                   http::Reply& reply);

// The spec of a running model with the fields of `body` instead of its own. Options of an engine go with the engine.
Result<LaunchSpec> changed_spec(const LaunchSpec& spec, const Json& body);

// Until then, or until the client has left or time is up.
http::asio::awaitable<void> pause(http::Reply& reply, std::chrono::milliseconds time);

}  // namespace quern::platform
