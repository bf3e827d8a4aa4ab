// Relations between the numbers of a configuration that no single bound can say.
#pragma once

#include "models/model_config.h"
#include "quern/status.h"

namespace quern {

// kInvalidFile, naming the values that do not go together.
Status check_model_config(const ModelConfig& config);

}  // namespace quern
