#pragma once

#include "server/route.h"

namespace quern::openai {

Routes routes();

}  // namespace quern::openai
