#include "orthogonalize.h"

#include <cmath>
#include <deque>
#include <span>
#include <vector>

#include "buffer.h"
#include "run.h"
#include "selftest/reference/optimizer.h"

namespace ct::kernels {
namespace {

struct Sizes {
  int rows, columns, stride;
};
/// Wide, tall and square; rows close together and padded; of one tile and of several, in either direction.
constexpr Sizes kSizes[] = {{5, 75, 75},    {84, 120, 128}, {33, 7, 16}, {64, 64, 64},
                            {70, 130, 144}, {140, 60, 64},  {1, 1, 1}};

/// Numbers in rows with pads of zeros.
std::vector<float> matrix(const Sizes& s, unsigned seed) {
  std::vector<float> values = numbers(static_cast<size_t>(s.rows * s.stride), seed);
  for (int i = 0; i < s.rows * s.stride; ++i)
    if (i % s.stride >= s.columns) values[static_cast<size_t>(i)] = 0;
  return values;
}

/// The results of all of them by one call.
std::vector<std::vector<float>> orthogonalized(std::span<const Sizes> sizes, std::span<const std::vector<float>> given,
                                               int steps) {
  std::deque<Buffer<float>> x;
  std::vector<OrthogonalizeMatrix> matrices;
  for (size_t i = 0; i < sizes.size(); ++i)
    matrices.push_back(
        {x.emplace_back(given[i]).data(), sizes[i].rows, sizes[i].columns, sizes[i].stride, /*scale=*/1.5f});
  const auto count = static_cast<int>(matrices.size());
  Buffer<double> workspace(orthogonalize_workspace_bytes(matrices.data(), count) / sizeof(double));
  EXPECT_EQ(orthogonalize({.matrices = matrices.data(),
                           .count = count,
                           .steps = steps,
                           .a = 3.4445f,
                           .b = -4.7750f,
                           .c = 2.0315f,
                           .eps = 1e-7,
                           .workspace = workspace.data()},
                          nullptr),
            cudaSuccess);
  std::vector<std::vector<float>> results;
  for (const auto& buffer : x) results.push_back(buffer.values());
  return results;
}

/// An even and an odd number of steps end in different halves of the workspace.
TEST(Orthogonalize, IsTheIterationOfF64ButForRoundingAndLeavesPads) {
  std::vector<std::vector<float>> given;
  for (const Sizes& s : kSizes) given.push_back(matrix(s, static_cast<unsigned>(given.size())));
  for (const int steps : {1, 4}) {
    const auto results = orthogonalized(kSizes, given, steps);
    const optim::Muon muon{.ns_steps = steps};
    for (size_t i = 0; i < given.size(); ++i) {
      const auto [rows, columns, stride] = kSizes[i];
      std::vector<double> dense;
      for (int r = 0; r < rows; ++r)
        for (int k = 0; k < columns; ++k) dense.push_back(given[i][static_cast<size_t>(r * stride + k)]);
      const auto want = reference::orthogonalize(muon, dense, static_cast<size_t>(rows), static_cast<size_t>(columns));
      double errors = 0, squares = 0;
      for (int r = 0; r < rows; ++r)
        for (int k = 0; k < stride; ++k) {
          const double got = results[i][static_cast<size_t>(r * stride + k)];
          if (k >= columns) {
            ASSERT_EQ(got, 0);
            continue;
          }
          const double exact = 1.5 * want[static_cast<size_t>(r * columns + k)];
          errors += (got - exact) * (got - exact), squares += exact * exact;
        }
      EXPECT_LT(std::sqrt(errors / squares), 0.02) << rows << "x" << columns << ", " << steps << " steps";
    }
  }
}

TEST(Orthogonalize, AMatrixHasTheSameBitsInAnyGroupAndOrderOfBlocks) {
  constexpr Sizes kSome[] = {{5, 75, 75}, {33, 7, 16}, {140, 60, 64}};
  std::vector<std::vector<float>> given;
  for (const Sizes& s : kSome) given.push_back(matrix(s, static_cast<unsigned>(given.size())));
  const auto together = orthogonalized(kSome, given, 2);
  for (size_t i = 0; i < given.size(); ++i)
    EXPECT_EQ(orthogonalized(std::span(kSome).subspan(i, 1), std::span(given).subspan(i, 1), 2)[0], together[i]) << i;
  on_host::in_all_orders([&] { EXPECT_EQ(orthogonalized(kSome, given, 2), together); });
}

TEST(Orthogonalize, AMatrixOfZerosStaysSo) {
  const Sizes size{70, 66, 66};
  const std::vector<float> zeros(static_cast<size_t>(size.rows * size.stride));
  EXPECT_EQ(orthogonalized(std::span(&size, 1), std::span(&zeros, 1), 5)[0], zeros);
}

TEST(Orthogonalize, RefusesSizesAndCountsThatAreNone) {
  Buffer<float> x(6);
  const OrthogonalizeMatrix good{x.data(), 2, 3, 3, 1};
  const auto call = [](std::vector<OrthogonalizeMatrix> matrices, int steps) {
    return orthogonalize({.matrices = matrices.data(), .count = static_cast<int>(matrices.size()), .steps = steps},
                         nullptr);
  };
  for (const auto& [rows, columns, stride] : {Sizes{0, 3, 3}, {2, 0, 3}, {2, 3, 2}})
    EXPECT_EQ(call({{x.data(), rows, columns, stride, 1}}, 5), cudaErrorInvalidValue);
  EXPECT_EQ(call({}, 5), cudaErrorInvalidValue);
  EXPECT_EQ(call(std::vector(kMostMatrices + 1, good), 5), cudaErrorInvalidValue);
  EXPECT_EQ(call({good}, 0), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ct::kernels
