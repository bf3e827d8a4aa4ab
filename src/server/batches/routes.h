// OpenAI's files and batches.
#pragma once

#include "server/batches/runner.h"
#include "server/batches/store.h"
#include "server/route.h"

namespace quern::batches {

// Both must outlive the routes.
Routes file_routes(BatchStore& store);
Routes batch_routes(BatchStore& store, BatchRunner& runner);

}  // namespace quern::batches
