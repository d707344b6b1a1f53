#include "device/cpu/kernels/plain.h"

#include "device/cpu/kernels/testing.h"
#include "selftest/reference/conv.h"

namespace ct::cpu {
namespace {

using Complex = std::complex<double>;

class Plain : public KernelTest {};
CT_KERNEL_SUITE(Plain);

std::vector<Complex> complex(const std::vector<double>& v) { return {v.begin(), v.end()}; }

TEST_P(Plain, ConvolutionAndItsGradients) {
  struct Problem {
    reference::Conv r;
    bool planar;
  };
  for (const Problem& problem : {Problem{{2, 3, 7, 8, 5, 3, 1, 1}, true},
                                 {{2, 4, 6, 6, 9, 5, 2, 2}, false},
                                 {{1, 20, 3, 4, 7, 1, 1, 0}, false},
                                 {{1, 2, 2, 2, 3, 3, 1, 3}, false}}) {
    const reference::Conv& r = problem.r;
    const ConvDims s{.n = r.n,
                     .in_h = r.height,
                     .in_w = r.width,
                     .in_channels = r.in,
                     .out_h = r.out_height(),
                     .out_w = r.out_width(),
                     .out_channels = r.out,
                     .kernel = r.kernel,
                     .stride = r.stride,
                     .pad = r.pad,
                     .planar = problem.planar};
    const auto x = normal(s.n * s.in_channels * s.in_h * s.in_w, 1);
    const auto x_nhwc = s.planar ? reference::to_channels_last(x, s.n, s.in_channels, s.in_h * s.in_w) : x;
    const auto w = normal(s.out_channels * s.kernel * s.kernel * s.in_channels, 2), b = normal(s.out_channels, 3);
    const auto expected = conv2d(r, x_nhwc, w, b);
    const auto dy = normal(expected.size(), 4);
    Buffer<float> px(x), pw(w), pb(b), y(expected.size()), pdy(dy), dx(x.size()), dw(w.size()), db(b.size()),
        workspace(conv2d_workspace(s));
    conv2d({s, px, pw, pb, y, workspace});
    conv2d_grad_weights({s, px, pdy, dw, db, workspace});
    conv2d_grad_input({s, pw, pdy, dx});
    const double terms = static_cast<double>(s.kernel * s.kernel * s.in_channels);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(y[i], expected[i], tolerance(terms, std::sqrt(terms)));
    const auto weighted = [&](const std::vector<Complex>& v) {
      Complex sum = 0;
      for (size_t i = 0; i < v.size(); ++i) sum += dy[i] * v[i];
      return sum;
    };
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(dx[i],
                  reference::derivative([&](const auto& v) { return weighted(conv2d(r, v, complex(w), complex(b))); },
                                        x_nhwc, i),
                  2e-5);
    for (size_t i = 0; i < w.size(); ++i)
      ASSERT_NEAR(dw[i],
                  reference::derivative(
                      [&](const auto& v) { return weighted(conv2d(r, complex(x_nhwc), v, complex(b))); }, w, i),
                  2e-5);
    for (size_t i = 0; i < b.size(); ++i)
      ASSERT_NEAR(db[i],
                  reference::derivative(
                      [&](const auto& v) { return weighted(conv2d(r, complex(x_nhwc), complex(w), v)); }, b, i),
                  2e-5);
    EXPECT_TRUE(y.intact() && dx.intact() && dw.intact() && db.intact() && workspace.intact());
    conv2d({s, px, pw, nullptr, y, workspace});
    EXPECT_NEAR(y[0], expected[0] - b[0], 1e-5);
  }
}

}  // namespace
}  // namespace ct::cpu
