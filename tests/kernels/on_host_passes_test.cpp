// How often batch norm moves a tensor: in how many launches it is among a kernel's arguments, each of which a kernel
// passes over once.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <ostream>

#include "batch_norm.h"
#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

struct Passes {
  int tensors = 0, masks = 0;
  bool operator==(const Passes&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Passes& p) {
  return out << p.tensors << " tensors, " << p.masks << " masks";
}

/// A batch norm of all its tensors, with the type's elements.
template <class T>
class Norm {
 public:
  Passes forward(bool residual, bool mask) {
    return passes_of([&] {
      return batch_norm({.shape = kShape,
                         .eps = 1e-5,
                         .relu = true,
                         .x = x_.data(),
                         .residual = residual ? residual_.data() : nullptr,
                         .w = w_.data(),
                         .b = b_.data(),
                         .y = y_.data(),
                         .mask = mask ? bits_.data() : nullptr,
                         .mean = mean_.data(),
                         .var = var_.data(),
                         .workspace = workspace_.data(),
                         .tickets = tickets_.data()},
                        nullptr);
    });
  }
  Passes gradient(bool residual, bool mask) {
    return passes_of([&] {
      return batch_norm_grad({.shape = kShape,
                              .eps = 1e-5,
                              .x = x_.data(),
                              .y = y_.data(),
                              .dy = dy_.data(),
                              .mask = mask ? bits_.data() : nullptr,
                              .w = w_.data(),
                              .b = residual ? nullptr : b_.data(),
                              .mean = mean_.data(),
                              .var = var_.data(),
                              .dx = dx_.data(),
                              .dresidual = residual ? dresidual_.data() : nullptr,
                              .dw = dw_.data(),
                              .db = db_.data(),
                              .batch_mean = batch_mean_.data(),
                              .batch_var = batch_var_.data(),
                              .workspace = workspace_.data(),
                              .tickets = tickets_.data()},
                             nullptr);
    });
  }

 private:
  template <class Call>
  Passes passes_of(Call call) {
    Passes passes;
    on_host::launch_observer = [&](const on_host::KernelLaunch& launch) {
      for (const uint64_t word : launch.words) {
        const auto is = [&](auto& buffer) { return word == reinterpret_cast<uint64_t>(buffer.data()); };
        for (Buffer<T>* tensor : {&x_, &residual_, &y_, &dy_, &dx_, &dresidual_}) passes.tensors += is(*tensor);
        passes.masks += is(bits_);
      }
    };
    EXPECT_EQ(call(), cudaSuccess);
    on_host::launch_observer = nullptr;
    return passes;
  }

  static constexpr BatchNormShape kShape{3000, 64, Named<T>::kType};
  static constexpr size_t kElements = 3000 * 64, kChannels = 64;
  Buffer<T> x_{numbers(kElements, 1)}, residual_{numbers(kElements, 2)}, y_{kElements}, dy_{numbers(kElements, 3)},
      dx_{kElements}, dresidual_{kElements};
  Buffer<uint8_t> bits_{kElements / 8};
  Buffer<float> w_{numbers(kChannels, 4)}, b_{numbers(kChannels, 5)}, mean_{kChannels}, var_{kChannels}, dw_{kChannels},
      db_{kChannels}, batch_mean_{kChannels}, batch_var_{kChannels},
      workspace_{batch_norm_workspace(kShape) / sizeof(float)};
  Tickets tickets_;
};

TEST(BatchNormPasses, AreThreeAndFive) {
  Norm<__nv_bfloat16> norm;
  EXPECT_EQ(norm.forward(/*residual=*/false, /*mask=*/false), (Passes{3, 0}));
  EXPECT_EQ(norm.gradient(/*residual=*/false, /*mask=*/false), (Passes{5, 0}));
}

TEST(BatchNormPasses, AreFourAndSixBehindAResidualIn16Bits) {
  Norm<__nv_bfloat16> norm;
  EXPECT_EQ(norm.forward(/*residual=*/true, /*mask=*/true), (Passes{4, 1}));
  EXPECT_EQ(norm.gradient(/*residual=*/true, /*mask=*/true), (Passes{6, 1}));
}

TEST(BatchNormPasses, AreFourAndSevenBehindAResidualInF32) {
  Norm<float> norm;
  EXPECT_EQ(norm.forward(/*residual=*/true, /*mask=*/false), (Passes{4, 0}));
  EXPECT_EQ(norm.gradient(/*residual=*/true, /*mask=*/false), (Passes{7, 0}));
}

}  // namespace
}  // namespace ct::kernels
