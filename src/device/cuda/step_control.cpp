#include "kernels/step_control.h"

#include "device/cuda/one_launch.h"

namespace ct::cuda {

namespace k = kernels;

std::unique_ptr<Kernel> prepare(const StepControl& op, const Context& in) {
  return one_launch(in, k::step_control, op,
                    {.count = in.shape(op.sums)[0],
                     .clip = op.clip,
                     .micro_batches = op.micro_batches,
                     .loss_scale_options = op.loss_scale_options,
                     .predivided = op.predivided});
}

}  // namespace ct::cuda
