// The routes /v1/chat/completions and /v1/completions.
#pragma once

#include "server/http/message.h"
#include "server/model_table.h"

namespace quern::openai {

http::asio::awaitable<void> chat_completions(const ModelTable& models, const http::Request& request,
                                             http::Reply& reply);
http::asio::awaitable<void> completions(const ModelTable& models, const http::Request& request, http::Reply& reply);

}  // namespace quern::openai
