#pragma once

#include "server/adapter_rules.h"
#include "server/door/door.h"
#include "server/route.h"

namespace quern::openai {

Routes routes(const AdapterRules& adapters, door::Door* door);  // both must outlive them; null: there is no fleet

}  // namespace quern::openai
