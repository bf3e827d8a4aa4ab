// The instruction sets that kernels on floats are built for: those of dot_targets.h less AVX-512's VNNI, which would
// only repeat the AVX-512 code. To be included before any header of Highway.
#pragma once

#ifdef QUERN_FEW_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
