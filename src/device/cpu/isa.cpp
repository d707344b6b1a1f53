#include "device/cpu/isa.h"

#include "device/cpu/kernels/targets.h"
// Highway must see the choice of targets first.
#include <hwy/targets.h>

namespace ct::cpu {

std::string instruction_set() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);  // lower bits are better
}

}  // namespace ct::cpu
