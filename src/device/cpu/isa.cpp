#include "device/cpu/isa.h"

#include "device/cpu/kernels/targets.h"
// Highway must see the choice of targets first.
#include <hwy/targets.h>
#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace ct::cpu {

std::string instruction_set() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);  // lower bits are better
}

void flush_denormals_in_this_thread() {
#if HWY_ARCH_X86
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
#elif HWY_ARCH_ARM_A64
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" : : "r"(fpcr | (uint64_t{1} << 24)));
#endif
}

}  // namespace ct::cpu
