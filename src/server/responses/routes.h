#pragma once

#include "server/responses/store.h"
#include "server/route.h"

namespace quern::responses {

// `store` must outlive the routes.
Routes routes(ResponseStore& store);

}  // namespace quern::responses
