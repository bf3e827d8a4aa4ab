#pragma once

#include "platform/fleet/fleet.h"
#include "server/route.h"

namespace quern::ollama {

Routes routes(const Fleet* fleet);  // may be null; must outlive them

// routes of models rather than of answers: models.cc and pull.cc
RouteFunction tags(const Fleet* fleet);
RouteFunction ps(const Fleet* fleet);
RouteFunction show(const Fleet* fleet);
http::asio::awaitable<void> embed(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> embeddings(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> pull(const ModelTable& models, const http::Request& request, http::Reply& reply);

}  // namespace quern::ollama
