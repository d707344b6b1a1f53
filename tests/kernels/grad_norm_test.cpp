#include "grad_norm.h"

#include <array>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "graph/ops.h"

namespace ct::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- the mirror of what the rest of the program holds

using Chunk = SquareSums::Chunk;
static_assert(sizeof(SquareChunk) == sizeof(Chunk) && offsetof(SquareChunk, begin) == offsetof(Chunk, range.begin) &&
              offsetof(SquareChunk, end) == offsetof(Chunk, range.end) &&
              offsetof(SquareChunk, sum) == offsetof(Chunk, sum));

// ---- square sums

/// What the header promises to the bit.
double square_sum(const float* x, int64_t n) {
  std::array<double, 256> a = {};
  for (int64_t e = 0; e < n; ++e) {
    double& to = a[static_cast<size_t>(e / 4 % 256)];
    to = std::fma(static_cast<double>(x[e]), static_cast<double>(x[e]), to);
  }
  double sum = 0;
  for (size_t warp = 0; warp < 8; ++warp) {
    for (size_t distance = 16; distance > 0; distance /= 2)
      for (size_t i = 0; i < distance; ++i) a[32 * warp + i] += a[32 * warp + i + distance];
    sum = warp == 0 ? a[0] : sum + a[32 * warp];
  }
  return sum;
}

TEST(SquareSums, GivesThePromisedBitsWhereverAChunkBegins) {
  for (const size_t shift : {0u, 1u}) {
    Buffer<float> grads(numbers(12000, 1), shift);
    // Whole, empty, tiny, at every alignment, out of order; the places of sums that no chunk names stay.
    const Operand<SquareChunk> chunks = {{0, 4096, 3},       {4096, 8192, 0},       {8192, 8192, 1}, {8192, 8193, 5},
                                         {8193, 9216, 6},    {9218, 10243, 7},      {11, 4107, 8},   {5, 8, 9},
                                         {11999, 12000, 10}, {2049, 2049 + 130, 11}};
    Buffer<double> sums(13);
    ASSERT_EQ(square_sums({.grads = grads.data(),
                           .chunks = chunks.data(),
                           .count = static_cast<int64_t>(chunks.size()),
                           .sums = sums.data()},
                          nullptr),
              cudaSuccess);
    const std::vector<float> values = grads.values();
    for (const SquareChunk& c : chunks)
      EXPECT_EQ(sums.at(static_cast<size_t>(c.sum)), square_sum(&values[static_cast<size_t>(c.begin)], c.end - c.begin))
          << c.begin << ".." << c.end;
    for (const size_t untouched : {2u, 4u, 12u}) EXPECT_TRUE(std::isnan(sums.at(untouched)));
  }
}

TEST(SquareSums, IsNotFiniteExactlyWhereAnElementIsNot) {
  const auto sum = [](float x, size_t at) {
    std::vector<float> values(1500, std::numeric_limits<float>::max());
    values[at] = x;
    Buffer<float> grads(values);
    const Operand<SquareChunk> chunk = {{0, 1500, 0}};
    Buffer<double> result(1);
    EXPECT_EQ(square_sums({.grads = grads.data(), .chunks = chunk.data(), .count = 1, .sums = result.data()}, nullptr),
              cudaSuccess);
    return result.at(0);
  };
  EXPECT_TRUE(std::isfinite(sum(-std::numeric_limits<float>::max(), 0)));
  for (const float x : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
    for (const size_t at : {0u, 700u, 1499u}) EXPECT_FALSE(std::isfinite(sum(x, at))) << x << " at " << at;
}

}  // namespace
}  // namespace ct::kernels
