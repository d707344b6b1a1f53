// Which instruction sets the vector kernels are compiled for; include before hwy/foreach_target.h. AVX-512, AVX2, the
// 128-bit set of other machines and plain C++ where there is none: more would only cost compile time. Scalable vectors
// are left out because the kernels keep arrays of vectors.
#pragma once

#ifdef CT_FEWER_TARGETS  // with sanitizers, under which each costs a minute a file
#define CT_DISABLED_TOO (HWY_AVX3 | HWY_AVX3_DL)
#else
#define CT_DISABLED_TOO 0
#endif
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | CT_DISABLED_TOO)
