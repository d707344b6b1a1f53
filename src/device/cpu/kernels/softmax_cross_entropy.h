// Softmax, cross entropy with label smoothing, its gradient, predictions and label ranks, in one pass over the logits.
//
//   log p_c = z_c - log sum exp z;   loss = -(1 - e) log p_t - e/C sum_c log p_c   (PyTorch's label_smoothing e)
//   dlogits_c = gradient_scale * (p_c - (1 - e)[c == t] - e/C)
//
// With second labels u and their shares s, (1 - s) log p_t + s log p_u replaces log p_t, and (1 - s)[c == t] + s[c ==
// u] replaces [c == t]. Class weights w multiply the target T of each class (PyTorch's weight with reduction = "sum"):
//
//   loss = - sum_c w_c T_c log p_c;   dlogits_c = gradient_scale * (p_c sum_k w_k T_k - w_c T_c)
//
// logits and dlogits are [n][classes] with row stride padded(classes) (linear.h), and pads of dlogits are written as
// zero; all other operands are [n]. A non-finite logit gives a non-finite loss. It takes about 20 ns per class and
// image.
#pragma once

#include <cstdint>

namespace ct::cpu {

struct SoftmaxCrossEntropyArgs {
  int64_t n, classes;
  const float* logits;
  const int32_t* labels;         // in [0, classes)
  const int32_t* second_labels;  // in [0, classes); nullptr: none
  const float* second_shares;    // in 0..1
  const float* class_weights;    // [classes]; nullptr: 1
  double label_smoothing;
  float gradient_scale;  // 1/n for the mean, times the loss scale
  float* losses;
  float* dlogits;       // nullptr: no gradient
  int32_t* predicted;   // the first maximum
  int32_t* label_rank;  // number of classes above the label (< 5: in the top five); all of them if its logit is NaN
};

void softmax_cross_entropy(const SoftmaxCrossEntropyArgs& args);

}  // namespace ct::cpu
