// OpenAI's files and batches. A batch is a job (platform/jobs) in other words.
#pragma once

#include "platform/jobs/jobs.h"
#include "server/batches/store.h"
#include "server/route.h"

namespace quern::batches {

// Both must outlive the routes.
Routes file_routes(FileStore& store);
Routes batch_routes(FileStore& store, Jobs& jobs);

}  // namespace quern::batches
