// Routes of no dialect: liveness, version, models, metrics, the pages and the description of the API.
#pragma once

#include "server/app.h"

namespace quern::basic {

Routes routes(const App& app);

}  // namespace quern::basic
