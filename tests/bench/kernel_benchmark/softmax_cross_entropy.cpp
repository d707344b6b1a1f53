#include "bench.h"

namespace ct::kernels {

void Bench::losses() {
  const int64_t rows = shrunk(65536);
  const SoftmaxCrossEntropyArgs loss = of_loss(rows, 1000, 1008);
  large("softmax_cross_entropy", "f32", shape_of(rows, 1000), rows * (4 * 1000 + 4 * 1008 + 16), 0,
        [=](cudaStream_t s) { return softmax_cross_entropy(loss, s); });
}

SoftmaxCrossEntropyArgs Bench::of_loss(int64_t rows, int64_t classes, int64_t stride) {
  return {.n = rows,
          .classes = classes,
          .stride = stride,
          .logits = arena_.take<float>(rows * stride),
          .labels = arena_.zeros<int32_t>(rows),
          .label_smoothing = 0,
          .loss_scale = nullptr,
          .losses = arena_.take<float>(rows),
          .predicted = arena_.take<int32_t>(rows),
          .label_rank = arena_.take<int32_t>(rows),
          .dlogits = arena_.take<float>(rows * stride)};
}

}  // namespace ct::kernels
