#pragma once

#include "server/route.h"

namespace quern::ollama {

Routes routes();

// routes of models rather than of answers: models.cc and pull.cc
http::asio::awaitable<void> tags(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> ps(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> show(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> embed(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> embeddings(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> pull(const ModelTable& models, const http::Request& request, http::Reply& reply);

}  // namespace quern::ollama
