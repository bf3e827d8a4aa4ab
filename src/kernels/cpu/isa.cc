#include "kernels/cpu/isa.h"

// clang-format off: the choice of targets comes before highway
#include "kernels/cpu/dot_targets.h"
#include <hwy/highway.h>
// clang-format on

#include "base/status.h"
#include "kernels/cpu/tiles.h"

namespace quern::cpu {
namespace {

struct Isa {
  std::string_view name;
  int64_t targets;  // highway's bits, any of which serves
  bool tiles = false;
  int64_t below = 0;  // for files that are built for less: without them they would fall back to plain code

  bool is_in(int64_t present) const { return (present & targets) != 0 && (!tiles || has_tiles()); }
};

constexpr Isa kIsas[] = {
    {"amx", HWY_AVX3_DL | HWY_AVX3, true, HWY_AVX2 | HWY_SSE4},
    {"avx512", HWY_AVX3_DL | HWY_AVX3, false, HWY_AVX2 | HWY_SSE4},
    {"avx2", HWY_AVX2, false, HWY_SSE4},
    {"sse4", HWY_SSE4},
    {"neon", HWY_NEON},
    {"scalar", HWY_SCALAR},
};

// Builds for one target dispatch statically and have no run-time choice to make (nor need highway's library).
constexpr bool kOneTarget = (HWY_TARGETS & (HWY_TARGETS - 1)) == 0;

// What the machine has. Asked once, before select_isa narrows highway's answer. HWY_SCALAR needs nothing of the
// machine; highway reports it only where nothing better is left.
[[maybe_unused]] int64_t hwy_present() {
  static const int64_t targets = hwy::SupportedTargets() | HWY_SCALAR;
  return targets;
}

int64_t machine_targets() {
  if constexpr (kOneTarget) {
    return HWY_TARGETS;
  } else {
    return hwy_present() & HWY_TARGETS;
  }
}

}  // namespace

Result<std::string> select_isa(std::string_view name) {
  const int64_t present = machine_targets();
  bool known = name.empty();
  for (const Isa& isa : kIsas) {
    known = known || isa.name == name;
    if (!isa.is_in(present) || (!name.empty() && isa.name != name)) continue;
    if constexpr (!kOneTarget) {
      // The machine's, not this file's: others are built for other sets.
      const int64_t chosen = hwy_present() & (isa.targets | isa.below);
      hwy::SetSupportedTargetsForTest(chosen);
      hwy::GetChosenTarget().Update(chosen);
    }
    set_use_tiles(isa.tiles);
    return std::string(isa.name);
  }
  if (!known) {
    return invalid_argument(fmt::format("isa \"{}\": not one of amx, avx512, avx2, sse4, neon, scalar", name));
  }
  return unsupported(fmt::format("isa \"{}\" is not available on this machine", name));
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  const int64_t present = machine_targets();
  for (const Isa& isa : kIsas) {
    if (isa.is_in(present)) names.emplace_back(isa.name);
  }
  return names;
}

}  // namespace quern::cpu
