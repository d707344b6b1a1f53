// A number that is not finite must show in the loss, so that the step is skipped: no maximum may swallow it.
#include "device/cpu/kernels/conv_relu_pool.h"
#include "device/cpu/kernels/softmax_cross_entropy.h"
#include "device/cpu/kernels/testing.h"

namespace ct::cpu {
namespace {

class NotFinite : public KernelTest {};
CT_KERNEL_SUITE(NotFinite);

TEST_P(NotFinite, PassesThroughReluAndPooling) {
  for (const ConvPoolShape& s : {ConvPoolShape{3, 3, 32, 32, 6, 5, true},
                                 {3, 6, 14, 14, 16, 5, false},
                                 {2, 3, 11, 12, 5, 3, true},
                                 {2, 7, 9, 8, 17, 2, false}}) {
    Buffer<float> x(normal(s.n * s.in_channels * s.height * s.width, 1), 16),
        w(normal(s.out_channels * s.kernel * s.kernel * s.in_channels, 2)), b(normal(s.out_channels, 3)),
        y(s.n * s.pooled_height() * s.pooled_width() * s.out_channels), workspace(conv_relu_pool_workspace(s));
    Buffer<uint8_t> argmax(y.size());
    w[0] = std::numeric_limits<float>::quiet_NaN();
    conv_relu_pool({s, x, w, b, y, argmax, workspace});
    EXPECT_TRUE(std::isnan(y[0]));
  }
}

TEST(SoftmaxCrossEntropy, NonFiniteLogitsShowInTheLoss) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const int c : {0, 3, 9}) {
      Buffer<float> logits(std::vector<double>(16, 0.0)), losses(1), dlogits(16);
      Buffer<int32_t> labels(std::vector<int>{3}), predicted(1), label_rank(1);
      logits[c] = bad;
      softmax_cross_entropy(
          {1, 10, logits, labels, nullptr, nullptr, nullptr, 0.0, 1.0f, losses, dlogits, predicted, label_rank});
      EXPECT_FALSE(std::isfinite(losses[0])) << bad << " in class " << c;
    }
}

TEST(SoftmaxCrossEntropy, ALabelIsNoHitWhereALogitIsNan) {
  constexpr int kLabel = 3;
  for (const int c : {0, kLabel, 9}) {
    Buffer<float> logits(std::vector<double>(16, 0.0)), losses(1);
    Buffer<int32_t> labels(std::vector<int>{kLabel}), predicted(1), label_rank(1);
    logits[kLabel] = 1;
    logits[c] = std::numeric_limits<float>::quiet_NaN();
    softmax_cross_entropy(
        {1, 10, logits, labels, nullptr, nullptr, nullptr, 0.0, 1.0f, losses, nullptr, predicted, label_rank});
    EXPECT_EQ(label_rank[0], c == kLabel ? 10 : 1) << "in class " << c;
  }
}

}  // namespace
}  // namespace ct::cpu
