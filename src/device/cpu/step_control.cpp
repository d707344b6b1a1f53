#include "device/cpu/step_control.h"

#include "base/error.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare(const StepControl& op, const Shapes& shape) {
  check(op.loss_scale == kNone, "a loss scale on a CPU, which does not compute in fp16");
  return make_kernel([op, chunks = shape(op.sums)[0]](const Operands& at, float*) {
    return [op, sums = std::span<const double>(at.at<double>(op.sums), static_cast<size_t>(chunks)),
            schedule = at.at<ScheduleRow>(op.schedule), scalars = at.at<StepScalars>(op.scalars)] {
      step_control(*scalars, sums, schedule, op.clip, op.micro_batches, op.predivided);
    };
  });
}

}  // namespace ct::cpu
