// How often kernels move whole tensors, from the arguments of their launches.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "batch_norm.h"
#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

TEST(Probe, Words) {
  const BatchNormShape shape{3000, 64, Type::bf16};
  const size_t n = 3000 * 64;
  using T = Named<__nv_bfloat16>;
  (void)sizeof(T);
  Buffer<__nv_bfloat16> x(numbers(n, 1)), r(numbers(n, 2)), y(n), dy(numbers(n, 3)), dx(n), dr(n);
  Buffer<float> w(numbers(64, 4)), b(numbers(64, 5)), mean(64), var(64), dw(64), db(64), bm(64), bv(64),
      ws(batch_norm_workspace(shape) / 4);
  Buffer<uint8_t> bits(n / 8);
  on_host::launch_observer = [&](const on_host::KernelLaunch& l) {
    printf("%s\n  ", l.type);
    auto name = [&](uint64_t v, auto& buf, const char* what, size_t bytes) {
      const auto at = reinterpret_cast<uint64_t>(buf.data());
      if (v >= at && v < at + bytes) printf("%s ", what);
    };
    for (uint64_t v : l.words) {
      name(v, x, "x", n * 2), name(v, r, "residual", n * 2), name(v, y, "y", n * 2), name(v, dy, "dy", n * 2);
      name(v, dx, "dx", n * 2), name(v, dr, "dresidual", n * 2), name(v, bits, "mask", n / 8);
    }
    printf("\n");
  };
  ASSERT_EQ(batch_norm({.shape = shape,
                        .eps = 1e-5,
                        .relu = true,
                        .x = x.data(),
                        .residual = r.data(),
                        .w = w.data(),
                        .b = b.data(),
                        .y = y.data(),
                        .mask = bits.data(),
                        .mean = mean.data(),
                        .var = var.data(),
                        .workspace = ws.data()},
                       nullptr),
            cudaSuccess);
  ASSERT_EQ(batch_norm_grad({.shape = shape,
                             .eps = 1e-5,
                             .x = x.data(),
                             .y = y.data(),
                             .dy = dy.data(),
                             .mask = bits.data(),
                             .w = w.data(),
                             .mean = mean.data(),
                             .var = var.data(),
                             .dx = dx.data(),
                             .dresidual = dr.data(),
                             .dw = dw.data(),
                             .db = db.data(),
                             .batch_mean = bm.data(),
                             .batch_var = bv.data(),
                             .workspace = ws.data()},
                            nullptr),
            cudaSuccess);
  ASSERT_EQ(batch_norm_grad({.shape = shape,
                             .eps = 1e-5,
                             .x = x.data(),
                             .y = y.data(),
                             .dy = dy.data(),
                             .w = w.data(),
                             .b = b.data(),
                             .mean = mean.data(),
                             .var = var.data(),
                             .dx = dx.data(),
                             .dw = dw.data(),
                             .db = db.data(),
                             .batch_mean = bm.data(),
                             .batch_var = bv.data(),
                             .workspace = ws.data()},
                            nullptr),
            cudaSuccess);
  on_host::launch_observer = nullptr;
}

}  // namespace
}  // namespace ct::kernels
