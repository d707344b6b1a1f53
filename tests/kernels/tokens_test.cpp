#include "tokens.h"

#include <gtest/gtest.h>

#include "buffer.h"

namespace ct::kernels {
namespace {

/// Image i in lane i % 16, then lanes in order; accesses of 16 bytes and of an element.
TEST(TokensGrad, SumsInOneOrder) {
  for (const size_t n : {3u, 16u, 35u})
    for (const size_t columns : {16u, 21u}) {
      constexpr size_t kTokens = 3;
      const std::vector<float> values = numbers(n * kTokens * columns, 4);
      std::vector<float> want(kTokens * columns);
      for (size_t i = 0; i < want.size(); ++i) {
        float lanes[16] = {};
        for (size_t image = 0; image < n; ++image) lanes[image % 16] += values[image * want.size() + i];
        for (const float lane : lanes) want[i] += lane;
      }
      Buffer<float> dy(values), dx(n * (kTokens - 1) * columns), dpositions(want.size()), dclass(columns);
      const auto row = static_cast<int64_t>(columns);
      ASSERT_EQ(tokens_grad({.type = Type::f32,
                             .n = static_cast<int64_t>(n),
                             .tokens = kTokens,
                             .columns = row,
                             .x_stride = row,
                             .stride = row,
                             .dy = dy.data(),
                             .dx = dx.data(),
                             .dclass_token = dclass.data(),
                             .dpositions = dpositions.data()},
                            nullptr),
                cudaSuccess);
      EXPECT_EQ(dpositions.values(), want);
      EXPECT_EQ(dclass.values(), std::vector<float>(want.begin(), want.begin() + row));
    }
}

}  // namespace
}  // namespace ct::kernels
