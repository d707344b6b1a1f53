#include "device/cpu/kernels/max_pool.h"

#include <algorithm>
#include <bit>

#include "device/backend.h"
#include "device/cpu/kernels/testing.h"
#include "selftest/reference/conv.h"

namespace ct::cpu {
namespace {

class MaxPoolKernel : public KernelTest {};
CT_KERNEL_SUITE(MaxPoolKernel);

uint16_t to_bf16(double x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16); }
double from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// bf16 on any machine: the operations' cases run in it only where convolutions do. Numbers of a few bits, of which
/// bf16 holds the sums of all windows that a pixel lies in.
TEST_P(MaxPoolKernel, TakesBf16) {
  for (const reference::Pool& r : {reference::Pool{2, 15, 16, 64, 3, 2, 1},
                                   {1, 9, 9, 21, 3, 2, 1},
                                   {2, 8, 6, 37, 2, 2, 0},
                                   {1, 7, 6, 5, 3, 1, 1}}) {
    const MaxPoolShape s{.n = r.n,
                         .height = r.height,
                         .width = r.width,
                         .channels = r.channels,
                         .out_height = r.out_height(),
                         .out_width = r.out_width(),
                         .kernel = r.kernel,
                         .stride = r.stride,
                         .pad = r.pad};
    std::vector<double> x = normal(static_cast<size_t>(r.inputs()), 1),
                        dy = normal(static_cast<size_t>(r.outputs()), 2);
    for (double& v : x) v = std::round(v * 2) / 2 - 1;
    for (double& v : dy) v = std::round(std::clamp(v, -2.0, 2.0) * 2) / 2;
    std::vector<uint8_t> places;
    const std::vector<double> expected = reference::max_pool(r, x, places);
    const std::vector<double> gradient = reference::max_pool_gradient(r, dy, places);
    std::vector<uint16_t> x_bits, dy_bits;
    for (const double v : x) x_bits.push_back(to_bf16(v));
    for (const double v : dy) dy_bits.push_back(to_bf16(v));
    Buffer<uint16_t> px(x_bits), pdy(dy_bits), y(expected.size()), dx(x.size());
    Buffer<uint8_t> argmax(expected.size());
    max_pool(s, px, y, argmax);
    max_pool_grad(s, pdy, argmax, dx);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(from_bf16(y[i]), expected[i]) << i;
      ASSERT_EQ(argmax[i], places[i]) << i;
    }
    for (size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(from_bf16(dx[i]), gradient[i]) << i;
    EXPECT_TRUE(y.intact() && argmax.intact() && dx.intact());
  }
}

/// Copies in f32 would be a workspace; the places of maxima are bytes in any case.
TEST(MaxPoolOnTheCpu, CopiesNothingInBf16) {
  const Value image{.shape = {2, 8, 8, 16}, .dtype = DType::bf16}, pooled{.shape = {2, 4, 4, 16}, .dtype = DType::bf16},
      places{.shape = {2, 4, 4, 16}, .dtype = DType::u8};
  const std::vector<Value> values = {image, pooled, places};
  const auto backend = make_cpu_backend();
  const MaxPool forward{.x = 0, .y = 1, .argmax = 2, .kernel = 2, .stride = 2, .pad = 0};
  const MaxPoolGrad backward{.dy = 1, .argmax = 2, .dx = 0, .kernel = 2, .stride = 2, .pad = 0};
  EXPECT_EQ(backend->prepare(forward, values)->workspace_bytes(), 0u);
  EXPECT_EQ(backend->prepare(backward, values)->workspace_bytes(), 0u);
}

}  // namespace
}  // namespace ct::cpu
