#pragma once

#include "server/route.h"

namespace quern::anthropic {

Routes routes();

}  // namespace quern::anthropic
