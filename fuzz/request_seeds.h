// Seeds of what clients send: bodies of every dialect, schemas and grammars, adapters.
#pragma once

#include <string_view>
#include <vector>

#include "seeds.h"

namespace quern::fuzz {

const std::vector<Seed>& request_seeds();
std::vector<Seed> dialect_seeds(std::string_view target);  // of an http_… target
std::vector<Seed> schema_seeds();
std::vector<Seed> grammar_seeds();
std::vector<Seed> adapter_seeds();

}  // namespace quern::fuzz
