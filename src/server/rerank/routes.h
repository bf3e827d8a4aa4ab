// Rerank in the shapes of Jina (/v1/rerank) and Cohere (/v2/rerank): one request, one answer that both clients read.
#pragma once

#include "server/route.h"

namespace quern::rerank {

Routes routes();

}  // namespace quern::rerank
