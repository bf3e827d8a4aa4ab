// The routes of models that encode, and of tokenizers, as OpenAI and vLLM have them: /v1/embeddings, /score, /classify,
// /tokenize, /detokenize.
#pragma once

#include "server/route.h"

namespace quern::openai {

http::asio::awaitable<void> embeddings(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> score(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> classify(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> tokenize(const ModelTable& models, const http::Request& request, http::Reply& reply);
http::asio::awaitable<void> detokenize(const ModelTable& models, const http::Request& request, http::Reply& reply);

}  // namespace quern::openai
