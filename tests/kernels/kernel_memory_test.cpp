// What the other tests' operands do: travel to the device before a launch, and back when the host looks.
#include "kernel_memory.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "buffer.h"
#include "copy.h"

namespace ct::kernels {
namespace {

template <class T>
void expect_on_device(T* at) {
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, at), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
}

TEST(KernelMemory, IsTheDevices) {
  Buffer<float> buffer(5);
  const Operand<float> operand(5, 1.0f);
  expect_on_device(buffer.data());
  expect_on_device(operand.data());
  EXPECT_EQ(Operand<float>().data(), nullptr);
}

TEST(KernelMemory, LaunchesFindWhatTheHostWroteAndTheHostWhatTheyDid) {
  Buffer<float> from(std::vector<float>{1, 2, 3}), to(3);
  const CopyArgs args{.from = from.data(), .to = to.data(), .bytes = 3 * sizeof(float)};
  ASSERT_EQ(copy(args, nullptr), cudaSuccess);
  EXPECT_EQ(to.values(), (std::vector<float>{1, 2, 3}));
  from.at(1) = 7;  // with the arguments as they are
  to.at(2) = 8;
  ASSERT_EQ(copy(args, nullptr), cudaSuccess);
  EXPECT_EQ(to.values(), (std::vector<float>{1, 7, 3}));
}

TEST(KernelMemory, OperandsGoAsTheyAreWhenTheyAreAskedFor) {
  Operand<float> from = {1, 2};
  Buffer<float> to(2);
  const auto copied = [&] {
    EXPECT_EQ(copy({.from = from.data(), .to = to.data(), .bytes = 2 * sizeof(float)}, nullptr), cudaSuccess);
    return to.values();
  };
  EXPECT_EQ(copied(), (std::vector<float>{1, 2}));
  const Operand<float> before = from;
  from[0] = 5;
  EXPECT_EQ(copied(), (std::vector<float>{5, 2}));
  EXPECT_NE(before.data(), from.data());
}

}  // namespace
}  // namespace ct::kernels
