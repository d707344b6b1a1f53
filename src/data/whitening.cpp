#include "data/whitening.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ct {
namespace {

/// A symmetric matrix, row by row.
struct Square {
  size_t n;
  std::vector<double> values;
  explicit Square(size_t size) : n(size), values(size * size) {}
  double& operator()(size_t row, size_t column) { return values[row * n + column]; }
};

/// The second moments of patches about zero: their sum. Returns how many there are.
int64_t add_patches(std::span<const float> image, const SampleShape& shape, int64_t side, Square& moments) {
  const int64_t rows = shape.height - side + 1, columns = shape.width - side + 1;
  std::vector<double> patch(moments.n);
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; ++x) {
      size_t at = 0;
      for (int64_t c = 0; c < shape.channels; ++c)
        for (int64_t dy = 0; dy < side; ++dy)
          for (int64_t dx = 0; dx < side; ++dx)
            patch[at++] = image[static_cast<size_t>((c * shape.height + y + dy) * shape.width + x + dx)];
      for (size_t i = 0; i < moments.n; ++i)
        for (size_t j = 0; j <= i; ++j) moments(i, j) += patch[i] * patch[j];
    }
  return std::max<int64_t>(rows, 0) * std::max<int64_t>(columns, 0);
}

/// Jacobi's method: turns `a` into a diagonal of eigenvalues and returns the eigenvectors as columns.
Square diagonalise(Square& a) {
  Square vectors(a.n);
  for (size_t i = 0; i < a.n; ++i) vectors(i, i) = 1;
  constexpr int kMostSweeps = 50;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0, on = 0;
    for (size_t i = 0; i < a.n; ++i)
      for (size_t j = 0; j < a.n; ++j) (i == j ? on : off) += a(i, j) * a(i, j);
    if (off <= 1e-28 * on) break;
    for (size_t p = 0; p < a.n; ++p)
      for (size_t q = p + 1; q < a.n; ++q) {
        if (a(p, q) == 0) continue;
        const double half = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = (half >= 0 ? 1 : -1) / (std::abs(half) + std::sqrt(half * half + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        const auto turn = [&](double& x, double& y) {
          const double before = x;
          x = c * x - s * y;
          y = s * before + c * y;
        };
        for (size_t k = 0; k < a.n; ++k) turn(a(k, p), a(k, q));
        for (size_t k = 0; k < a.n; ++k) turn(a(p, k), a(q, k));
        for (size_t k = 0; k < a.n; ++k) turn(vectors(k, p), vectors(k, q));
      }
  }
  return vectors;
}

}  // namespace

std::vector<float> whitening_filters(const DataSet& set, std::span<const uint32_t> images, std::span<const float> scale,
                                     std::span<const float> shift, int64_t side, int64_t filters) {
  constexpr size_t kEnough = 1000;
  constexpr double kLeast = 5e-4;  // added to variances, so that what hardly varies is not mere noise
  const SampleShape& shape = set.shape();
  const auto plane = static_cast<size_t>(shape.height * shape.width);
  Square moments(static_cast<size_t>(shape.channels * side * side));
  std::vector<uint8_t> pixels(shape.bytes());
  std::vector<float> image(shape.bytes());
  int64_t patches = 0;
  for (const uint32_t i : images.first(std::min(images.size(), kEnough))) {
    if (!set.read(i, {}, pixels.data())) continue;
    for (size_t at = 0; at < image.size(); ++at)
      image[at] = static_cast<float>(pixels[at]) * scale[at / plane] + shift[at / plane];
    patches += add_patches(image, shape, side, moments);
  }
  if (patches == 0) return {};
  for (size_t i = 0; i < moments.n; ++i)
    for (size_t j = 0; j <= i; ++j) moments(j, i) = moments(i, j) /= static_cast<double>(patches);
  Square vectors = diagonalise(moments);

  std::vector<size_t> order(moments.n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t k) { return moments(k, k); });
  order.resize(std::min(moments.n, static_cast<size_t>(filters + 1) / 2));
  std::vector<float> found;
  for (const double sign : {1.0, -1.0})
    for (const size_t k : order) {
      const auto component = [&](size_t i) { return vectors(i, k); };
      size_t largest = 0;
      for (size_t i = 1; i < moments.n; ++i)
        if (std::abs(component(i)) > std::abs(component(largest))) largest = i;
      const double factor =
          std::copysign(sign, sign * component(largest)) / std::sqrt(std::max(moments(k, k), 0.0) + kLeast);
      for (size_t i = 0; i < moments.n; ++i) found.push_back(static_cast<float>(factor * component(i)));
    }
  found.resize(std::min(found.size(), static_cast<size_t>(filters) * moments.n));
  return found;
}

}  // namespace ct
