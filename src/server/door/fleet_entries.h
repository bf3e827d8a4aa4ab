// Models of the fleet as lists of models show them.
#pragma once

#include "base/json.h"
#include "platform/fleet/fleet.h"

namespace quern::door {

Json model_entry(const ModelView& model);  // of /v1/models

}  // namespace quern::door
