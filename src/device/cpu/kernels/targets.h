// The instruction sets that the vector kernels are compiled for: AVX-512, AVX2, the 128-bit set of other machines, and
// C++ without vectors. More sets would only cost compile time. Scalable vectors are left out because the kernels have
// arrays of vectors. Include before hwy/foreach_target.h.
#pragma once

#ifdef CT_FEWER_TARGETS  // with sanitizers, where each set costs a minute a file
#define CT_DISABLED_TOO (HWY_AVX3 | HWY_AVX3_DL)
#else
#define CT_DISABLED_TOO 0
#endif
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | CT_DISABLED_TOO)
