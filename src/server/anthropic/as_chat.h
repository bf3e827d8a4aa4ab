// Messages for engines that are not ours: asked as a chat of OpenAI's shape, answered as Anthropic does.
#pragma once

#include "server/foreign/translation.h"

namespace quern::anthropic {

ApiResult<std::unique_ptr<foreign::Translation>> messages_as_chat(const foreign::Asked& asked);

}  // namespace quern::anthropic
