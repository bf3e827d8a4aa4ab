#pragma once

#include "server/adapter_rules.h"
#include "server/route.h"

namespace quern::openai {

Routes routes(const AdapterRules& adapters);  // which must outlive them

}  // namespace quern::openai
