// From an opened source to a few positions computed, as far as the source allows.
#pragma once

#include "models/loader.h"

namespace quern::fuzz {

void run_model(const ModelSource& source);

}  // namespace quern::fuzz
