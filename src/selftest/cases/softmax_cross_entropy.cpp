#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/loss_scale.h"
#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/dense.h"

namespace ct::cases {
namespace {

struct LossProblem {
  int64_t n, classes;
  float smoothing;
  Doubles z, labels;
  double scale = 1;                                // of fp16 training
  Doubles second_labels = {}, second_shares = {};  // of mixed images; none: plain ones
  double predivide = 1;
  Doubles weights = {};  // of classes; none: 1

  template <class T>
  std::vector<T> row(const std::vector<T>& values, int64_t i) const {
    return {values.begin() + i * classes, values.begin() + (i + 1) * classes};
  }
  Doubles target(int64_t i) const {
    const auto of = [&](const Doubles& which) {
      return reference::smooth_target(at(classes), static_cast<int64_t>(which[at(i)]), static_cast<double>(smoothing));
    };
    Doubles target = of(labels);
    if (!second_labels.empty()) {
      const Doubles second = of(second_labels);
      for (size_t c = 0; c < target.size(); ++c) target[c] += second_shares[at(i)] * (second[c] - target[c]);
    }
    for (size_t c = 0; c < weights.size(); ++c) target[c] *= weights[c];
    return target;
  }
  template <class T>
  T loss(const std::vector<T>& values, int64_t i) const {
    return reference::softmax_cross_entropy(row(values, i), target(i));
  }
  Doubles gradient(int64_t i) const { return reference::softmax_cross_entropy_gradient(row(z, i), target(i)); }
};

OpCase loss_case(const LossProblem& p, bool gradient, const std::string& text) {
  Case c;
  Doubles losses, predicted, label_rank, dlogits, loss_tolerance, dlogits_tolerance;
  const double heaviest = p.weights.empty() ? 1 : std::ranges::max(p.weights);
  for (int64_t i = 0; i < p.n; ++i) {
    const Doubles z = p.row(p.z, i);
    const auto label = static_cast<int64_t>(p.labels[at(i)]);
    double widest = 0, above = 0;
    for (const double v : z) widest = std::max(widest, std::abs(v)), above += !(v <= z[at(label)]);
    losses.push_back(p.loss(p.z, i));
    predicted.push_back(static_cast<double>(std::max_element(z.begin(), z.end()) - z.begin()));
    label_rank.push_back(above);
    loss_tolerance.push_back(heaviest * (4 + 2 * widest) * kEps);  // exponents up to 2 widest, rounded before exp
    for (double d : p.gradient(i)) {
      dlogits.push_back(p.scale * d / (static_cast<double>(p.n) * p.predivide));
      dlogits_tolerance.push_back(heaviest * p.scale * (4 + 2 * widest) * kEps /
                                  (static_cast<double>(p.n) * p.predivide));
    }
  }
  for (const double loss : losses)
    if (!std::isfinite(loss)) dlogits.assign(dlogits.size(), std::numeric_limits<double>::quiet_NaN());
  const ValueId z = c.in({p.n, p.classes}, p.z), labels = c.in({p.n}, p.labels, DType::i32);
  const bool mixed = !p.second_labels.empty();
  const ValueId second = mixed ? c.in({p.n}, p.second_labels, DType::i32) : kNone;
  const ValueId shares = mixed ? c.in({p.n}, p.second_shares) : kNone;
  const ValueId weights = p.weights.empty() ? kNone : c.in({p.classes}, p.weights);
  const ValueId loss = c.out({p.n}, losses, loss_tolerance);
  const ValueId best = c.out({p.n}, predicted, {}, DType::i32), more = c.out({p.n}, label_rank, {}, DType::i32);
  const ValueId dz = gradient ? c.out({p.n, p.classes}, dlogits, dlogits_tolerance) : kNone;
  const ValueId scale =
      p.scale == 1 ? kNone : c.in(shape_of<LossScaleState>(), bytes_of(LossScaleState{.scale = p.scale}), DType::u8);
  if (gradient && p.scale == 1 && p.predivide == 1 && std::isfinite(dlogits[0]))
    c.gradient(dz, p.z, [p](const std::vector<Complex>& values) {
      Complex mean = 0;
      for (int64_t i = 0; i < p.n; ++i) mean += p.loss(values, i) / static_cast<double>(p.n);
      return mean;
    });
  return c.of(
      SoftmaxCrossEntropy{z, labels, loss, best, more, dz, p.smoothing, scale, second, shares, weights, p.predivide},
      " ", p.n, " of ", p.classes, " smoothing ", p.smoothing, gradient ? "" : " evaluation", text);
}

}  // namespace

void add_cases(Cases& cases, Of<SoftmaxCrossEntropy>) {
  for (const int64_t n : {1, 3, 4, 17})
    for (const int64_t classes : {2, 10, 16, 100})
      for (const float smoothing : {0.0f, 0.1f}) {
        LossProblem p{n, classes, smoothing, normal(at(n * classes), 7, 3), {}};
        for (int64_t i = 0; i < n; ++i) p.labels.push_back(static_cast<double>((i * 7 + 1) % classes));
        cases.push_back(loss_case(p, true, ""));
        cases.push_back(loss_case(p, false, ""));
        for (int64_t i = 0; i < n; ++i) {  // the same label twice, too
          p.second_labels.push_back(static_cast<double>((i * 5 + 1) % classes));
          p.second_shares.push_back(static_cast<double>(static_cast<float>(i % 4) / 3));
        }
        cases.push_back(loss_case(p, true, " mixed"));
        for (int64_t c = 0; c < classes; ++c) p.weights.push_back(static_cast<double>(c * 3 % 8) / 4);  // 0, too
        cases.push_back(loss_case(p, true, " mixed and weighted"));
        p.second_labels.clear(), p.second_shares.clear();
        cases.push_back(loss_case(p, true, " weighted"));
      }
  cases.push_back(loss_case({2, 10, 0, Doubles(20, 0.5), {3, 0}}, true, " of equal logits"));
  // One image's loss is not finite: the whole gradient is NaN, so that the step is skipped.
  LossProblem broken{3, 10, 0, normal(30, 7), {1, 2, 3}};
  broken.z[14] = std::numeric_limits<double>::infinity();
  cases.push_back(loss_case(broken, true, " with an infinite logit"));
  for (const size_t bad : {12, 14}) {  // the label's own logit, and another one
    LossProblem nan{3, 10, 0, normal(30, 7), {1, 2, 3}};
    nan.z[bad] = std::numeric_limits<double>::quiet_NaN();
    cases.push_back(loss_case(nan, false, bad == 12 ? " with NaN for the label" : " with NaN for another class"));
  }
  cases.push_back(loss_case({3, 10, 0.1f, normal(30, 7, 3), {1, 2, 3}, /*scale=*/0x1p15}, true, " scaled"));
  LossProblem divided{3, 10, 0.1f, normal(30, 7, 3), {1, 2, 3}};
  divided.predivide = 6;
  cases.push_back(loss_case(divided, true, " divided beforehand"));
}

}  // namespace ct::cases
