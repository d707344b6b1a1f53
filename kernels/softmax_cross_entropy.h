// Softmax and cross entropy with label smoothing, the gradient, and the predictions and label ranks for accuracies.
//
//   log p_c = z_c - log sum exp z;   loss = -(1 - e) log p_t - e/C sum_c log p_c   (PyTorch's label_smoothing e)
//   dlogits_c = loss_scale / (n predivide) * (p_c - (1 - e)[c == t] - e/C): the gradient of the mean loss, scaled;
//   the factor is computed in f64 and rounded to f32 once
//
// Class weights w multiply the target T of each class: loss = - sum_c w_c T_c log p_c, and p_c sum_k w_k T_k - w_c T_c
// replaces p_c - T_c.
//
// A non-finite logit gives a non-finite loss, and a non-finite loss sets the whole gradient to NaN, so that the step is
// skipped (a loss can overflow although its gradient does not). Exponentials are computed in f32 of differences from
// the largest logit; sums over classes and the logarithm are f64, in a fixed order.
//
// logits, dlogits are f32 [n][classes] with a row stride of `stride` elements; pads of dlogits are written as zero; all
// other operands are [n]. Operands may have any alignment. The launch runs in the stream, one warp per row. A row moves
// 4 * classes bytes of logits (more than 1024 classes are read three times, twice from the cache), 4 * stride bytes of
// dlogits and 16 of the other operands. With a gradient and more than 8 rows the losses are read again, 4 bytes per
// row, to spread NaN: by the last block if there are tickets (tickets.h) and at most 2048 rows, otherwise by a
// second kernel. cudaErrorInvalidValue: no classes, or more classes than `stride`.
#pragma once

#include "element.h"

namespace ct::kernels {

struct SoftmaxCrossEntropyArgs {
  int64_t n, classes, stride;
  const float* logits;
  const int32_t* labels;         // in [0, classes)
  const int32_t* second_labels;  // in [0, classes); null: none
  const float* second_shares;    // in 0..1
  const float* class_weights;    // [classes]; null: 1
  double label_smoothing;
  const double* loss_scale;  // in device memory; null: 1
  float* losses;
  int32_t* predicted;   // the first maximum; 0 where the first logit is NaN, otherwise NaN is never the maximum
  int32_t* label_rank;  // number of classes above the label, all if its logit is NaN; < 5: in the top five
  float* dlogits;       // null: no gradient
  double predivide = 1;
  unsigned* tickets = nullptr;  // null: none
};

cudaError_t softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
