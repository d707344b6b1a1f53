#include "kernels/step_control.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {

namespace k = kernels;

std::unique_ptr<Kernel> prepare(const StepControl& op, const Context& in) {
  const LossScaleOptions& scale = op.loss_scale_options;
  const k::LossScaleOptions options{.dynamic = scale.dynamic,
                                    .min = scale.min,
                                    .window = scale.window,
                                    .hysteresis = scale.hysteresis,
                                    .consecutive_hysteresis = scale.consecutive_hysteresis,
                                    .without_hysteresis = scale.without_hysteresis,
                                    .unscale_by_new = scale.unscale_by_new};
  return make_plain_kernel(in.label(),
                           [op, options, count = in.shape(op.sums)[0], stream = in.stream()](const Operands& at) {
                             const k::StepControlArgs args{.sums = at.at<const double>(op.sums),
                                                           .count = count,
                                                           .schedule = at.at<const k::ScheduleRow>(op.schedule),
                                                           .scalars = at.at<k::StepScalars>(op.scalars),
                                                           .clip = op.clip,
                                                           .micro_batches = op.micro_batches,
                                                           .loss_scale = at.at<k::LossScaleState>(op.loss_scale),
                                                           .loss_scale_options = options,
                                                           .predivided = op.predivided};
                             return [=] { CT_CUDA(k::step_control(args, stream)); };
                           });
}

}  // namespace ct::cuda
