#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/softmax_cross_entropy.h"
#include "device/kernels_testing.h"
#include "reference/dense.h"

namespace ct::cpu {
namespace {

using Complex = std::complex<double>;

const LinearShape kShapes[] = {{4, 400, 120}, {4, 120, 84}, {4, 84, 10}, {1, 16, 1}, {7, 5, 3}, {133, 130, 18}};

std::vector<Complex> complex(const std::vector<double>& v) { return {v.begin(), v.end()}; }

class Linear : public KernelTest {};

TEST_P(Linear, ForwardWithAndWithoutRelu) {
  for (const LinearShape& s : kShapes)
    for (const bool relu : {false, true}) {
      const auto x = normal(s.n * s.in, 1), w = normal(s.in * s.out, 2), b = normal(s.out, 3);
      const auto expected = reference::linear(s.n, s.in, s.out, x, w, b);
      const int64_t stride = padded(s.out);
      Buffer<float> px(with_stride(x, s.in, padded(s.in))), pw(with_stride(w, s.in, padded(s.in))), pb(b),
          y(s.n * stride);
      linear({s, px, pw, pb, y, relu});
      for (int64_t n = 0; n < s.n; ++n)
        for (int64_t o = 0; o < stride; ++o) {
          double want = o < s.out ? expected[n * s.out + o] : 0.0;
          if (relu && want < 0) want = 0;
          ASSERT_NEAR(y[n * stride + o], want, o < s.out ? tolerance(s.in, std::sqrt(s.in)) : 0) << n << "," << o;
        }
      EXPECT_TRUE(y.intact());
    }
}

TEST_P(Linear, Gradients) {
  for (const LinearShape& s : kShapes) {
    const auto x = normal(s.n * s.in, 1), w = normal(s.in * s.out, 2), b = normal(s.out, 3),
               dy = normal(s.n * s.out, 4);
    const int64_t in = padded(s.in), out = padded(s.out);
    Buffer<float> px(with_stride(x, s.in, in)), pw(with_stride(w, s.in, in)), pdy(with_stride(dy, s.out, out)),
        dx(s.n * in), dw(s.out * in), db(s.out);
    linear_grad_input({s, pw, pdy, dx});
    linear_grad_weights({s, px, pdy, dw, db});
    const auto weighted = [&](const std::vector<Complex>& y) {
      Complex sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
      return sum;
    };
    const auto of_x = [&](const std::vector<Complex>& v) {
      return weighted(reference::linear(s.n, s.in, s.out, v, complex(w), complex(b)));
    };
    const auto of_w = [&](const std::vector<Complex>& v) {
      return weighted(reference::linear(s.n, s.in, s.out, complex(x), v, complex(b)));
    };
    const auto of_b = [&](const std::vector<Complex>& v) {
      return weighted(reference::linear(s.n, s.in, s.out, complex(x), complex(w), v));
    };
    for (size_t i = 0; i < x.size(); i += 1 + x.size() / 97)
      ASSERT_NEAR(dx[i / s.in * in + i % s.in], reference::derivative(of_x, x, i), tolerance(s.out, std::sqrt(s.out)));
    for (size_t i = 0; i < w.size(); i += 1 + w.size() / 97)
      ASSERT_NEAR(dw[i / s.in * in + i % s.in], reference::derivative(of_w, w, i), tolerance(s.n, std::sqrt(s.n)));
    for (size_t i = 0; i < b.size(); ++i)
      ASSERT_NEAR(db[i], reference::derivative(of_b, b, i), tolerance(s.n, std::sqrt(s.n)));
    for (int64_t i = 0; i < s.n * in; ++i) ASSERT_TRUE(i % in < s.in ? std::isfinite(dx[i]) : dx[i] == 0);
    for (int64_t i = 0; i < s.out * in; ++i) ASSERT_TRUE(i % in < s.in ? std::isfinite(dw[i]) : dw[i] == 0);
    EXPECT_TRUE(dx.intact() && dw.intact() && db.intact());
  }
}
CT_KERNEL_SUITE(Linear);

TEST(SoftmaxCrossEntropy, LossGradientAndRanks) {
  for (const int64_t classes : {2, 10, 16, 100})
    for (const double smoothing : {0.0, 0.1}) {
      constexpr int64_t kN = 5;
      const int64_t stride = padded(classes);
      const auto z = normal(kN * classes, 7, 3);
      Buffer<float> logits(with_stride(z, classes, stride)), losses(kN), dlogits(kN * stride);
      Buffer<int32_t> labels(kN), predicted(kN), larger(kN);
      for (int32_t n = 0; n < kN; ++n) labels[n] = static_cast<int32_t>((n * 7 + 1) % classes);
      softmax_cross_entropy({kN, classes, logits, labels, smoothing, 0.25f, losses, dlogits, predicted, larger});
      for (int64_t n = 0; n < kN; ++n) {
        const std::vector<double> row(z.begin() + n * classes, z.begin() + (n + 1) * classes);
        EXPECT_NEAR(losses[n], reference::softmax_cross_entropy(row, labels[n], smoothing), 2e-6);
        int32_t above = 0;
        for (const double v : row) above += v > row[labels[n]];
        EXPECT_EQ(larger[n], above);
        EXPECT_EQ(predicted[n], std::max_element(row.begin(), row.end()) - row.begin());
        const auto loss = [&](const std::vector<Complex>& v) {
          return reference::softmax_cross_entropy(v, labels[n], smoothing);
        };
        for (int64_t c = 0; c < stride; ++c)
          EXPECT_NEAR(dlogits[n * stride + c], c < classes ? 0.25 * reference::derivative(loss, row, c) : 0.0,
                      c < classes ? 1e-7 : 0);
      }
      EXPECT_TRUE(dlogits.intact() && losses.intact());
    }
}

TEST(SoftmaxCrossEntropy, FirstMaximumAndEvaluationWithoutGradient) {
  Buffer<float> logits(std::vector<double>(16, 0.0)), losses(1);
  Buffer<int32_t> labels(std::vector<int>{3}), predicted(1), larger(1);
  softmax_cross_entropy({1, 10, logits, labels, 0.0, 1.0f, losses, nullptr, predicted, larger});
  EXPECT_EQ(predicted[0], 0);
  EXPECT_EQ(larger[0], 0);
  EXPECT_NEAR(losses[0], std::log(10.0), 1e-6);
}

TEST(SoftmaxCrossEntropy, NonFiniteLogitsShowInTheLoss) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const int c : {0, 3, 9}) {
      Buffer<float> logits(std::vector<double>(16, 0.0)), losses(1), dlogits(16);
      Buffer<int32_t> labels(std::vector<int>{3}), predicted(1), larger(1);
      logits[c] = bad;
      softmax_cross_entropy({1, 10, logits, labels, 0.0, 1.0f, losses, dlogits, predicted, larger});
      EXPECT_FALSE(std::isfinite(losses[0])) << bad << " in class " << c;
    }
}

}  // namespace
}  // namespace ct::cpu
