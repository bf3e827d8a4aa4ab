// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them, of models of this process and of launched
// ones.
#pragma once

#include "server/adapter_rules.h"
#include "server/door/door.h"
#include "server/route.h"

namespace quern::openai {

// Routes; `rules` and `door` must outlive them. A null door: there is no fleet.
// {"lora_name", "lora_path", "load_inplace", "scale", "model"}: answers when the adapter is checked and ready, in every
// replica of a launched model.
RouteFunction load_adapter(const AdapterRules& rules, door::Door* door);
// {"lora_name", "model"}
RouteFunction unload_adapter(const AdapterRules& rules, door::Door* door);

}  // namespace quern::openai
