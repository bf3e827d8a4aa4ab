// The catalogue over HTTP: what there is (GET /v1/catalog), one model with the engines that can run it here
// (GET /v1/catalog/{name}), and the memory that serving it takes (POST /v1/estimate). Thin doors over
// platform/catalog; the work looks at the disk and runs off the I/O threads.
#pragma once

#include "server/route.h"

namespace quern::catalog {

Routes routes();

}  // namespace quern::catalog
