// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them.
#pragma once

#include "server/http/server.h"
#include "server/model_table.h"

namespace quern::openai {

// {"lora_name", "lora_path", "load_inplace", "scale", "model"}: answers when the adapter is checked and ready.
http::asio::awaitable<void> load_adapter(const ModelTable& models, const http::Request& request, http::Reply& reply);
// {"lora_name", "model"}
http::asio::awaitable<void> unload_adapter(const ModelTable& models, const http::Request& request, http::Reply& reply);

}  // namespace quern::openai
