// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them.
#pragma once

#include "server/adapter_rules.h"
#include "server/route.h"

namespace quern::openai {

// Routes; `rules` must outlive them.
// {"lora_name", "lora_path", "load_inplace", "scale", "model"}: answers when the adapter is checked and ready.
RouteFunction load_adapter(const AdapterRules& rules);
// {"lora_name", "model"}
RouteFunction unload_adapter(const AdapterRules& rules);

}  // namespace quern::openai
