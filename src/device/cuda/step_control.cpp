#include "kernels/step_control.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {

namespace k = kernels;

std::unique_ptr<Kernel> prepare(const StepControl& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, count = in.shape(op.sums)[0], stream = in.stream()](const Operands& at) {
    const k::StepControlArgs args{.sums = at.at<const double>(op.sums),
                                  .count = count,
                                  .schedule = at.at<const ScheduleRow>(op.schedule),
                                  .scalars = at.at<StepScalars>(op.scalars),
                                  .clip = op.clip,
                                  .micro_batches = op.micro_batches,
                                  .loss_scale = at.at<LossScaleState>(op.loss_scale),
                                  .loss_scale_options = op.loss_scale_options,
                                  .predivided = op.predivided};
    return [=] { CT_CUDA(k::step_control(args, stream)); };
  });
}

}  // namespace ct::cuda
