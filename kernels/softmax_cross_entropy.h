// Softmax, cross entropy with label smoothing, its gradient and what accuracy needs.
//
//   log p_c = z_c - log sum exp z;   loss = -(1 - e) log p_t - e/C sum_c log p_c   (PyTorch's label_smoothing e)
//   dlogits_c = loss_scale / (n predivide) * (p_c - (1 - e)[c == t] - e/C): the gradient of the losses' mean, scaled;
//   the factor is made in f64 and rounded to f32 once
//
// A non-finite logit gives a non-finite loss, and any non-finite loss a gradient that is all NaN, so that the step is
// skipped (its mean has no gradient, and a loss can overflow where its gradient would not). Exponents are of
// differences from the largest logit, in f32; sums over classes and the logarithm f64, always in the same order.
//
// logits, dlogits f32 [n][classes], rows `stride` elements apart, dlogits' pads written as zero; the rest [n]. No
// alignment is asked for. Runs in the stream, a warp a row; moves, a row, 4 classes bytes of logits (read three times,
// twice from the cache), 4 stride of dlogits, 16 of the rest. With a gradient and more than 8 rows a second kernel
// reads the losses, 4 bytes a row, to spread NaN. cudaErrorInvalidValue: no classes, or more than a stride.
#pragma once

#include "element.h"

namespace ct::kernels {

struct SoftmaxCrossEntropyArgs {
  int64_t n, classes, stride;
  const float* logits;
  const int32_t* labels;         // in [0, classes)
  const int32_t* second_labels;  // likewise; nullptr: none
  const float* second_shares;    // in 0..1
  double label_smoothing;
  const double* loss_scale;  // in device memory; nullptr: 1
  float* losses;
  int32_t* predicted;   // the first maximum; 0 where the first logit is NaN, otherwise NaN is never the maximum
  int32_t* label_rank;  // how many classes beat the label, all of them where its logit is NaN: < 5 is in the top five
  float* dlogits;       // nullptr: no gradient
  double predivide = 1;
};

cudaError_t softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
