// Every family there is, one object each; defined in the file of its name.
#pragma once

#include "models/family.h"

namespace quern {

extern const Family kLlamaFamily;
extern const Family kMistralFamily;
extern const Family kQwen2Family;

}  // namespace quern
