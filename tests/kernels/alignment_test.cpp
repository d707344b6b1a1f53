// Kernels that access several elements at once where alignment allows it: a result is the same to the bit where memory
// begins one element later.
#include <gtest/gtest.h>

#include <functional>

#include "buffer.h"
#include "dropout.h"
#include "experts.h"
#include "fff.h"
#include "pool.h"
#include "sequence_pool.h"
#include "typed.h"

namespace ct::kernels {
namespace {

/// numbers() with ties, NaN and infinities among them.
template <class T>
std::vector<float> odd_numbers(size_t n, uint32_t which) {
  const float odd[] = {1, -1, 0.0f, -0.0f, std::nanf(""), INFINITY, 1, -INFINITY};
  std::vector<float> v = rounded<T>(numbers(n, which));
  for (size_t i = which; i < n; i += 3) v[i] = odd[i % 8];
  return v;
}

template <class T>
class Alignment : public testing::Test {
 public:
  using Launch = std::function<cudaError_t(const std::vector<T*>& in, const std::vector<T*>& out)>;

  /// Launches with aligned operands, and with all operands one element later.
  static void compare(const std::vector<std::vector<float>>& in, const std::vector<size_t>& out, const Launch& launch) {
    std::vector<std::vector<float>> results[2];
    for (const size_t shift : {0, 1}) {
      std::vector<std::unique_ptr<Buffer<T>>> operands, made;
      std::vector<T*> from, to;
      for (const auto& values : in)
        from.push_back(operands.emplace_back(std::make_unique<Buffer<T>>(values, shift))->data());
      for (const size_t n : out) to.push_back(made.emplace_back(std::make_unique<Buffer<T>>(n, shift))->data());
      ASSERT_EQ(launch(from, to), cudaSuccess);
      for (const auto& buffer : made) results[shift].push_back(buffer->values());
    }
    for (size_t i = 0; i < out.size(); ++i) expect_same(results[1][i], results[0][i]);
  }
};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Alignment, Types);

TYPED_TEST(Alignment, DropoutAndJitter) {
  using T = TypeParam;
  constexpr Type kType = Named<T>::kType;
  const Operand<DropoutKey> key{{42, 7, 3}};
  for (const size_t n : {1, 127, 128, 1000, 8193}) {
    const auto size = static_cast<int64_t>(n);
    this->compare({odd_numbers<T>(n, 1)}, {n}, [&](const auto& in, const auto& out) {
      return dropout({kType, size, key.data(), 2, 30000, 1.5f, in[0], out[0]}, nullptr);
    });
    this->compare({odd_numbers<T>(n, 1)}, {n}, [&](const auto& in, const auto& out) {
      return jitter({kType, size, key.data(), 2, in[0], out[0]}, nullptr);
    });
  }
}

TYPED_TEST(Alignment, MaxPool) {
  using T = TypeParam;
  constexpr Type kType = Named<T>::kType;
  constexpr int64_t kChannels = 16;
  struct Case {
    int64_t height, width, rows, columns;
    int kernel, stride, pad;
  };
  for (const auto& [height, width, rows, columns, kernel, stride, pad] : {Case{9, 8, 5, 4, 3, 2, 1},
                                                                          {8, 9, 3, 4, 3, 2, 0},
                                                                          {2, 1, 1, 1, 3, 2, 1},
                                                                          {6, 7, 6, 7, 3, 1, 1},
                                                                          {6, 7, 3, 3, 2, 2, 0},
                                                                          {6, 7, 5, 6, 2, 1, 0},
                                                                          {6, 6, 4, 4, 2, 2, 1}}) {
    SCOPED_TRACE(testing::Message() << height << " x " << width << " by " << kernel << " / " << stride);
    const auto x = static_cast<size_t>(2 * height * width * kChannels);
    const auto y = static_cast<size_t>(2 * rows * columns * kChannels);
    Buffer<uint8_t> argmax(y);
    this->compare({odd_numbers<T>(x, 1), odd_numbers<T>(y, 2)}, {y, x}, [&](const auto& in, const auto& out) {
      const cudaError_t error = max_pool({.type = kType,
                                          .n = 2,
                                          .height = height,
                                          .width = width,
                                          .channels = kChannels,
                                          .kernel = kernel,
                                          .stride = stride,
                                          .pad = pad,
                                          .x = in[0],
                                          .y = out[0],
                                          .argmax = argmax.data()},
                                         nullptr);
      return error != cudaSuccess ? error
                                  : max_pool_grad({.type = kType,
                                                   .n = 2,
                                                   .height = height,
                                                   .width = width,
                                                   .channels = kChannels,
                                                   .kernel = kernel,
                                                   .stride = stride,
                                                   .pad = pad,
                                                   .dy = in[1],
                                                   .argmax = argmax.data(),
                                                   .dx = out[1]},
                                                  nullptr);
    });
  }
}

TYPED_TEST(Alignment, SequencePool) {
  using T = TypeParam;
  struct Case {
    int64_t tokens, channels, stride;
  };
  for (const auto& [tokens, channels, stride] : {Case{17, 40, 40}, {9, 300, 304}, {3, 5, 8}}) {
    const SequencePoolShape shape{Named<T>::kType, 2, tokens, channels, stride, 1};
    const auto image = static_cast<size_t>(2 * stride), all = image * static_cast<size_t>(tokens);
    const auto scores = static_cast<size_t>(2 * tokens);
    this->compare({rounded<T>(numbers(all, 1)), rounded<T>(numbers(scores, 2)), rounded<T>(numbers(image, 3))},
                  {image, all, scores}, [&](const auto& in, const auto& out) {
                    const cudaError_t error = sequence_pool({shape, in[0], in[1], out[0]}, nullptr);
                    return error != cudaSuccess
                               ? error
                               : sequence_pool_grad({shape, in[0], in[1], in[2], out[1], out[2]}, nullptr);
                  });
  }
}

TYPED_TEST(Alignment, SoftmaxMix) {
  using T = TypeParam;
  constexpr Type kType = Named<T>::kType;
  constexpr int64_t kRows = 5, kStride = 304;
  constexpr size_t kAll = kRows * kStride;
  Buffer<float> scores(numbers(kRows * 2, 4)), dscores(kRows * 2);
  std::vector<float> of_scores;
  this->compare(
      {rounded<T>(numbers(kAll, 1)), rounded<T>(numbers(kAll, 2)), rounded<T>(numbers(kAll, 3))}, {kAll, kAll, kAll},
      [&](const auto& in, const auto& out) {
        const cudaError_t error = softmax_mix({kType, kRows, kStride, 2, in[0], in[1], scores.data(), out[0]}, nullptr);
        if (error != cudaSuccess) return error;
        const cudaError_t result = softmax_mix_grad(
            {kType, kRows, kStride, 2, in[0], in[1], scores.data(), in[2], out[1], out[2], dscores.data()}, nullptr);
        if (!of_scores.empty()) expect_same(dscores.values(), of_scores);
        of_scores = dscores.values();
        return result;
      });
}

TYPED_TEST(Alignment, TreeGelu) {
  using T = TypeParam;
  for (const FffTrees& trees : {FffTrees{2, 3, 2}, {1, 2, 3}}) {
    const int64_t rows = 70, stride = trees.width() + 3;
    const auto n = static_cast<size_t>(rows * stride);
    this->compare({odd_numbers<T>(n, 1), odd_numbers<T>(n, 2)}, {n, n}, [&](const auto& in, const auto& out) {
      const cudaError_t error = tree_gelu({Named<T>::kType, rows, stride, trees, in[0], out[0]}, nullptr);
      return error != cudaSuccess
                 ? error
                 : tree_gelu_grad({Named<T>::kType, rows, stride, trees, in[0], in[1], out[1]}, nullptr);
    });
  }
}

}  // namespace
}  // namespace ct::kernels
