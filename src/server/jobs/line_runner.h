// Runs lines of jobs as requests to this server's own routes, behind those of clients.
#pragma once

#include <functional>
#include <memory>

#include "platform/jobs/jobs.h"
#include "server/background.h"
#include "server/http/message.h"

namespace quern::jobs {

// Answers one request by the server's routes.
using Serve = std::function<http::asio::awaitable<void>(http::Request&, http::Reply&)>;

// As JobsOptions::run_line; `background` and `serve` must live until the answer is there.
std::shared_ptr<LineHandle> run_line(Background& background, const Serve& serve, LineCall call,
                                     std::function<void(LineAnswer)> done);

}  // namespace quern::jobs
