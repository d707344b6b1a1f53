#include "softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/dense.h"
#include "tickets.h"

namespace ct::kernels {
namespace {

constexpr double kF32 = 0x1p-24;
const float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  int64_t n, classes, stride;
  double smoothing = 0;
  std::optional<double> loss_scale = {};
  size_t size() const { return static_cast<size_t>(n * stride); }
  std::string text() const {
    return std::to_string(n) + " of " + std::to_string(classes) + " stride " + std::to_string(stride) + " smoothing " +
           std::to_string(smoothing);
  }
};

/// Pads of logits are NaN: nothing may read them.
struct Loss {
  explicit Loss(const Case& c)
      : c(c),
        logits(c.size()),
        dlogits(c.size()),
        losses(static_cast<size_t>(c.n)),
        scale(1),
        labels(static_cast<size_t>(c.n)),
        predicted(static_cast<size_t>(c.n)),
        label_rank(static_cast<size_t>(c.n)) {
    scale.at(0) = c.loss_scale.value_or(1);
    const std::vector<float> z = numbers(static_cast<size_t>(c.n * c.classes), 1);
    for (int64_t i = 0; i < c.n; ++i) {
      for (int64_t j = 0; j < c.classes; ++j) logit(i, j) = 4 * z[static_cast<size_t>(i * c.classes + j)];
      labels.at(static_cast<size_t>(i)) = static_cast<int32_t>((i * 7 + 1) % c.classes);
    }
  }
  float& logit(int64_t i, int64_t j) { return logits.at(static_cast<size_t>(i * c.stride + j)); }
  float dlogit(int64_t i, int64_t j) { return dlogits[static_cast<size_t>(i * c.stride + j)]; }
  SoftmaxCrossEntropyArgs args() {
    return {.n = c.n,
            .classes = c.classes,
            .stride = c.stride,
            .logits = logits.data(),
            .labels = labels.data(),
            .label_smoothing = c.smoothing,
            .loss_scale = c.loss_scale ? scale.data() : nullptr,
            .losses = losses.data(),
            .predicted = predicted.data(),
            .label_rank = label_rank.data(),
            .dlogits = dlogits.data()};
  }
  void expect_ranks() {
    for (int64_t i = 0; i < c.n; ++i) {
      int32_t best = 0, above = 0;
      for (int32_t j = 0; j < c.classes; ++j) {
        if (logit(i, j) > logit(i, best)) best = j;
        above += !(logit(i, j) <= logit(i, labels.at(static_cast<size_t>(i))));
      }
      ASSERT_EQ(predicted.at(static_cast<size_t>(i)), best) << c.text() << " row " << i;
      ASSERT_EQ(label_rank.at(static_cast<size_t>(i)), above) << c.text() << " row " << i;
    }
  }
  void expect_result() {
    expect_ranks();
    const double scale = c.loss_scale.value_or(1) / static_cast<double>(c.n);
    for (int64_t i = 0; i < c.n; ++i) {
      std::vector<double> z;
      for (int64_t j = 0; j < c.classes; ++j) z.push_back(logit(i, j));
      const int64_t label = labels.at(static_cast<size_t>(i));
      const double tolerance = kF32 * 24;  // logits within [-8, 8)
      ASSERT_NEAR(losses[static_cast<size_t>(i)], reference::softmax_cross_entropy(z, label, c.smoothing),
                  2 * tolerance)
          << c.text();
      const auto d = reference::softmax_cross_entropy_gradient(z, label, c.smoothing);
      for (int64_t j = 0; j < c.stride; ++j)
        if (j < c.classes)
          ASSERT_NEAR(dlogit(i, j), scale * d[static_cast<size_t>(j)], scale * tolerance) << c.text() << " class " << j;
        else
          ASSERT_EQ(dlogit(i, j), 0) << c.text();
    }
  }
  void expect_nan() {
    for (int64_t i = 0; i < c.n; ++i)
      for (int64_t j = 0; j < c.stride; ++j)
        if (j < c.classes)
          ASSERT_TRUE(std::isnan(dlogit(i, j))) << c.text() << " row " << i;
        else
          ASSERT_EQ(dlogit(i, j), 0) << c.text();
  }

  Case c;
  Buffer<float> logits, dlogits, losses;
  Buffer<double> scale;
  Buffer<int32_t> labels, predicted, label_rank;
};

TEST(SoftmaxCrossEntropy, TenThousandClasses) {
  Loss l({2, 10000, 10000, 0.1});
  ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
  l.expect_result();
}

TEST(SoftmaxCrossEntropy, OnlyAnImagesShareOfTheLossScaleMustFitF32) {
  Loss l({4, 10, 16, 0.1, 5e38});
  ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
  l.expect_result();
}

TEST(SoftmaxCrossEntropy, TiesGoToTheFirstMaximumAndBeatNoLabel) {
  for (const int64_t classes : {10, 70}) {
    Loss l({3, classes, classes});
    for (int64_t j = 0; j < classes; ++j) l.logit(0, j) = 0.5f;
    l.logit(1, 3) = l.logit(1, 4) = l.logit(1, 9) = 9;  // of one lane and of several
    l.logit(1, classes - 1) = 9;
    l.labels.at(1) = 9;
    l.logit(2, 0) = -0.0f, l.logit(2, 1) = 0.0f;
    for (int64_t j = 2; j < classes; ++j) l.logit(2, j) = j == 2 ? 0.0f : -3;
    ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
    l.expect_result();
    EXPECT_EQ(l.predicted.at(0), 0);
    EXPECT_EQ(l.predicted.at(1), 3);
    EXPECT_EQ(l.label_rank.at(1), 0);
  }
}

TEST(SoftmaxCrossEntropy, LargeLogitsDoNotOverflow) {
  Loss l({1, 3, 3});
  l.logit(0, 0) = 1e30f, l.logit(0, 1) = 1e30f, l.logit(0, 2) = -1e30f;
  l.labels.at(0) = 1;
  ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
  EXPECT_NEAR(l.dlogit(0, 0), 0.5, 1e-6);
  EXPECT_NEAR(l.dlogit(0, 1), -0.5, 1e-6);
  EXPECT_EQ(l.dlogit(0, 2), 0);
}

TEST(SoftmaxCrossEntropy, ALossThatIsNotFiniteMakesAllTheGradientNan) {
  for (const int64_t n : {3, 20})
    for (const int64_t classes : {10, 40})
      for (const float bad : {kNan, kInfinity, -kInfinity})
        for (const int64_t at : {0, 3, 9}) {
          Loss l({n, classes, 48});
          l.logit(n - 1, at) = bad;
          ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
          EXPECT_FALSE(std::isfinite(l.losses[static_cast<size_t>(n - 1)])) << bad << " in class " << at;
          for (int64_t i = 0; i < n - 1; ++i) EXPECT_TRUE(std::isfinite(l.losses[static_cast<size_t>(i)]));
          l.expect_ranks();
          l.expect_nan();
        }
}

TEST(SoftmaxCrossEntropy, RanksOfRowsWithoutNumbers) {
  for (const float all : {kNan, -kInfinity}) {
    Loss l({2, 40, 40});
    for (int64_t j = 0; j < 40; ++j) l.logit(1, j) = all;
    ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
    l.expect_ranks();
    l.expect_nan();
  }
}

TEST(SoftmaxCrossEntropy, ALossThatOverflowsAloneMakesTheGradientNan) {
  for (const int64_t n : {2, 9}) {
    Loss l({n, 2, 2});
    l.logit(1, 0) = 3e38f, l.logit(1, 1) = -3e38f;
    l.labels.at(1) = 1;
    ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
    EXPECT_EQ(l.losses[1], kInfinity);
    l.expect_nan();
  }
}

TEST(SoftmaxCrossEntropy, ManyRows) {
  for (const bool broken : {false, true}) {
    Loss l({260, 2, 3});
    if (broken) l.logit(259, 1) = kNan;
    ASSERT_EQ(softmax_cross_entropy(l.args(), nullptr), cudaSuccess);
    broken ? l.expect_nan() : l.expect_result();
  }
}

/// Whichever block that is, and whichever row is broken, launch after launch.
TEST(SoftmaxCrossEntropy, TheLastBlockLooksAtAllLosses) {
  on_host::in_all_orders([] {
    Tickets tickets;
    for (const int64_t broken : {-1, 0, 30, 59, -1}) {
      Loss l({60, 10, 16});
      if (broken >= 0) l.logit(broken, 1) = kNan;
      SoftmaxCrossEntropyArgs args = l.args();
      args.tickets = tickets.data();
      ASSERT_EQ(softmax_cross_entropy(args, nullptr), cudaSuccess);
      broken >= 0 ? l.expect_nan() : l.expect_result();
    }
  });
}

}  // namespace
}  // namespace ct::kernels
