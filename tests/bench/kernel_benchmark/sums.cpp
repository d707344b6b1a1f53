#include "bench.h"
#include "tree_sum.h"

namespace ct::kernels {

std::vector<SquareChunk> Bench::chunks(int64_t n) const {
  std::vector<SquareChunk> all;
  for (int64_t at = 0; at < n; at += kSquareChunk)
    all.push_back({at, std::min(at + kSquareChunk, n), static_cast<int64_t>(all.size())});
  return all;
}

SquareSumsArgs Bench::of_squares(int64_t n) {
  const std::vector<SquareChunk> table = chunks(n);
  const auto count = static_cast<int64_t>(table.size());
  return {
      .grads = arena_.take<float>(n), .chunks = arena_.of(table), .count = count, .sums = arena_.zeros<double>(count)};
}

void Bench::sums() {
  const int64_t n = shrunk(int64_t{128} << 20);
  const SquareSumsArgs squares = of_squares(n);
  large("square_sums", "f32", shape_of(n), 4 * n + 32 * squares.count, 0,
        [=](cudaStream_t s) { return square_sums(squares, s); });

  const std::vector<const float*> terms = {arena_.take<float>(n), arena_.take<float>(n), arena_.take<float>(n)};
  float* const out = arena_.take<float>(n);
  large("sum_in_order", "f32", shape_of(n) + ", 3 terms", 16 * n, 0, [=](cudaStream_t s) {
    return sum_in_order({.terms = terms.data(), .count = static_cast<int>(terms.size()), .out = out, .n = n}, s);
  });

  const float* const leaf = arena_.take<float>(n);
  const int32_t* const counter = arena_.of(std::vector<int32_t>{1});  // it meets leaf 0
  const std::vector<float*> levels = {arena_.take<float>(n), arena_.take<float>(n)};
  large("tree_push", "f32", shape_of(n) + ", 1 merge", 12 * n, 0, [=](cudaStream_t s) {
    return tree_push({.values = leaf,
                      .counter = counter,
                      .last = false,
                      .levels = levels.data(),
                      .level_count = static_cast<int>(levels.size()),
                      .n = n},
                     s);
  });
}

}  // namespace ct::kernels
