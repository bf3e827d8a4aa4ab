// Philox 4x32-10: a random function of a counter and a key (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As
// Easy as 1, 2, 3; SC 2011). Pure; any thread.
#pragma once

#include <array>
#include <cstdint>

namespace quern {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace quern
