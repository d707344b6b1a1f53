#include "device/cpu/kernels/conv_relu_pool.h"
#include "device/kernels_testing.h"
#include "reference/conv.h"

namespace ct::cpu {
namespace {

using Complex = std::complex<double>;

const ConvPoolShape kShapes[] = {
    {3, 3, 32, 32, 6, 5, true},    // the tutorial network's first layer
    {3, 6, 14, 14, 16, 5, false},  // its second
    {2, 3, 11, 12, 5, 3, true},    // odd rows of outputs
    {2, 7, 9, 8, 17, 2, false},   {1, 20, 6, 7, 3, 1, false},
};

struct Case {
  explicit Case(const ConvPoolShape& shape) : s(shape) {
    reference = {s.n, s.in_channels, s.height, s.width, s.out_channels, s.kernel, 1, 0};
    x = normal(s.n * s.in_channels * s.height * s.width, 1);
    w = normal(s.out_channels * s.kernel * s.kernel * s.in_channels, 2, 0.2);
    b = normal(s.out_channels, 3, 0.2);
    outputs = s.n * s.pooled_height() * s.pooled_width() * s.out_channels;
    dy = normal(outputs, 4);
    terms = static_cast<double>(s.kernel * s.kernel * s.in_channels);
    x_nhwc = s.planar ? reference::to_channels_last(x, s.n, s.in_channels, s.height * s.width) : x;
    y = reference::conv_relu_pool(reference, x_nhwc, w, b, winner);
  }
  ConvPoolShape s;
  reference::Conv reference;
  std::vector<double> x, x_nhwc, w, b, dy, y;
  std::vector<uint8_t> winner;
  size_t outputs;
  double terms;

  /// sum of dy * y as a function of one of the operands.
  template <class Y>
  Complex weighted(const std::vector<Y>& values) const {
    Complex sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += dy[i] * values[i];
    return sum;
  }
};

std::vector<Complex> complex(const std::vector<double>& v) { return {v.begin(), v.end()}; }

class ConvReluPool : public KernelTest {};

TEST_P(ConvReluPool, Forward) {
  for (const ConvPoolShape& shape : kShapes) {
    const Case c(shape);
    Buffer<float> x(c.x, 16), w(c.w), b(c.b), y(c.outputs), workspace(conv_relu_pool_workspace(shape));
    Buffer<uint8_t> winner(c.outputs);
    conv_relu_pool({shape, x, w, b, y, winner, workspace});
    int cut = 0;
    for (size_t i = 0; i < c.outputs; ++i) {
      ASSERT_NEAR(y[i], c.y[i], tolerance(c.terms, 1)) << "output " << i;
      ASSERT_EQ(winner[i], c.winner[i]) << "output " << i;
      cut += winner[i] == 4;
    }
    EXPECT_GT(cut, 0);
    EXPECT_TRUE(y.intact() && winner.intact() && workspace.intact());
  }
}

TEST_P(ConvReluPool, FirstOfEqualMaximaWins) {
  for (const ConvPoolShape& shape : kShapes) {
    Case c(shape);
    Buffer<float> x(std::vector<double>(c.x.size(), 1.0), 16), w(std::vector<double>(c.w.size(), 0.5)), b(c.b),
        y(c.outputs), workspace(conv_relu_pool_workspace(shape));
    Buffer<uint8_t> winner(c.outputs);
    conv_relu_pool({shape, x, w, b, y, winner, workspace});
    for (size_t i = 0; i < c.outputs; ++i) ASSERT_EQ(winner[i], 0);
  }
}

TEST_P(ConvReluPool, NotANumberSpreads) {
  for (const ConvPoolShape& shape : kShapes) {
    Case c(shape);
    Buffer<float> x(c.x, 16), w(c.w), b(c.b), y(c.outputs), workspace(conv_relu_pool_workspace(shape));
    Buffer<uint8_t> winner(c.outputs);
    w[0] = std::numeric_limits<float>::quiet_NaN();
    conv_relu_pool({shape, x, w, b, y, winner, workspace});
    EXPECT_TRUE(std::isnan(y[0]));
  }
}

TEST_P(ConvReluPool, WeightGradient) {
  for (const ConvPoolShape& shape : kShapes) {
    const Case c(shape);
    Buffer<float> x(c.x, 16), dy(c.dy), dw(c.w.size()), db(c.b.size()), workspace(conv_relu_pool_workspace(shape));
    Buffer<uint8_t> winner(c.winner);
    conv_relu_pool_grad_weights({shape, x, dy, winner, dw, db, workspace});
    std::vector<uint8_t> unused;
    const auto loss_of_w = [&](const std::vector<Complex>& w) {
      return c.weighted(conv_relu_pool(c.reference, complex(c.x_nhwc), w, complex(c.b), unused));
    };
    const auto loss_of_b = [&](const std::vector<Complex>& b) {
      return c.weighted(conv_relu_pool(c.reference, complex(c.x_nhwc), complex(c.w), b, unused));
    };
    const double sum = static_cast<double>(c.outputs / c.b.size());
    for (size_t i = 0; i < c.w.size(); i += 1 + c.w.size() / 97)
      ASSERT_NEAR(dw[i], reference::derivative(loss_of_w, c.w, i), tolerance(sum, std::sqrt(sum))) << "weight " << i;
    for (size_t i = 0; i < c.b.size(); ++i)
      ASSERT_NEAR(db[i], reference::derivative(loss_of_b, c.b, i), tolerance(sum, std::sqrt(sum))) << "bias " << i;
    for (size_t i = 0; i < c.w.size(); ++i) ASSERT_TRUE(std::isfinite(dw[i]));
    EXPECT_TRUE(dw.intact() && db.intact() && workspace.intact());
  }
}

TEST_P(ConvReluPool, InputGradient) {
  for (const ConvPoolShape& shape : kShapes) {
    const Case c(shape);
    Buffer<float> w(c.w), dy(c.dy), dx(c.x.size()), workspace(conv_relu_pool_workspace(shape));
    Buffer<uint8_t> winner(c.winner);
    conv_relu_pool_grad_input({shape, w, dy, winner, dx, workspace});
    std::vector<uint8_t> unused;
    const auto loss_of_x = [&](const std::vector<Complex>& x) {
      return c.weighted(conv_relu_pool(c.reference, x, complex(c.w), complex(c.b), unused));
    };
    for (size_t i = 0; i < c.x.size(); i += 1 + c.x.size() / 97)
      ASSERT_NEAR(dx[i], reference::derivative(loss_of_x, c.x_nhwc, i),
                  tolerance(static_cast<double>(c.s.out_channels) * 25, 1))
          << "input " << i;
    for (size_t i = 0; i < c.x.size(); ++i) ASSERT_TRUE(std::isfinite(dx[i]));
    EXPECT_TRUE(dx.intact() && workspace.intact());
  }
}

CT_KERNEL_SUITE(ConvReluPool);

}  // namespace
}  // namespace ct::cpu
