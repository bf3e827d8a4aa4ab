// The instruction sets that matrix products are built for. To be included before any header of Highway.
#pragma once

// AVX-512 with VNNI (Ice Lake, Zen 4) is off unless asked for; its dot product is what we want most.
#define HWY_WANT_AVX3_DL
// SSSE3 alone has no machine worth a build of its own. SVE: bodies use arrays of vectors, which sizeless types forbid;
// NEON runs on every such machine.
#ifdef QUERN_FEW_TARGETS  // sanitizer builds: one modern set and the baseline, compiled in a fraction of the time
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
