// Rerank in the shapes of Jina (/v1/rerank) and Cohere (/v2/rerank): one request, one answer that both clients read.
#pragma once

#include "base/json.h"
#include "server/api_error.h"
#include "server/route.h"

namespace quern::rerank {

Routes routes();

// Xinference's client sends what else it was given twice: as fields, and as JSON text in `kwargs`, which is gone here.
ApiResult<Json> with_kwargs(Json body);

}  // namespace quern::rerank
