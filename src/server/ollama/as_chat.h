// Ollama's requests for engines that are not ours: asked as OpenAI's, answered as Ollama does.
#pragma once

#include "server/foreign/translation.h"

namespace quern::ollama {

using Translated = ApiResult<std::unique_ptr<foreign::Translation>>;

Translated chat_as_chat(const foreign::Asked& asked);
Translated generate_as_chat(const foreign::Asked& asked);  // raw ones as a completion
Translated embed_as_embeddings(const foreign::Asked& asked);
Translated embeddings_as_embeddings(const foreign::Asked& asked);

}  // namespace quern::ollama
