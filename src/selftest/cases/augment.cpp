#include "selftest/reference/augment.h"

#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

Doubles pixels_of(const Shape& shape) {
  Doubles pixels = normal(at(shape.numel()), 1, 100);
  for (double& p : pixels) p = std::fmod(std::floor(std::abs(p)), 256);
  return pixels;
}

const std::vector<float> kScale{1 / 63.0f, 1 / 62.0f, 1 / 66.0f}, kShift{-1.99f, -1.98f, -1.71f};

/// Of a set of `set` images each one of the micro-batch picks one, some of them the same.
OpCase picked(int64_t set, const Shape& shape, const Doubles& index, const Doubles& draws, DType type) {
  Case c(type);
  const int64_t n = shape[0], elements = shape.numel() / n;
  const Shape all{set, shape[1], shape[2], shape[3]};
  const Doubles pixels = pixels_of(all);
  Doubles of_batch;
  for (const double number : index) {
    const auto first = pixels.begin() + static_cast<int64_t>(number) * elements;
    of_batch.insert(of_batch.end(), first, first + elements);
  }
  Doubles expected = reference::augment(n, shape[1], shape[2], shape[3], of_batch, draws, kScale, kShift);
  const ValueId images = c.in(all, pixels, DType::u8), numbers = c.in({n}, index, DType::i32),
                moves = c.in({4 * n}, draws, DType::i32);
  const ValueId out = c.wide_out(shape, expected, Doubles(expected.size(), 8 * kEps));
  return c.of(Augment{images, numbers, moves, out, kScale, kShift}, " ", to_string(shape), " of a set of ", set);
}

}  // namespace

void add_cases(Cases& cases, Of<Augment>, DType type) {
  const Doubles all_draws = {0, 0, 0, 0, 0, 0, 1, 0, 4, -3, 0, 0, -4, 4, 1, 0, 2, 1, 1, 0, -40, 0, 0, 0, 0, 60, 1, 0};
  struct Size {
    int64_t n, channels, height, width;
  };
  for (const Size& s : {Size{7, 3, 32, 32}, {1, 3, 32, 32}, {4, 3, 5, 7}, {3, 1, 9, 50}, {7, 3, 3, 16}}) {
    Case c(type);
    const Shape shape{s.n, s.channels, s.height, s.width};
    const Doubles pixels = pixels_of(shape);
    const Doubles draws(all_draws.begin(), all_draws.begin() + 4 * s.n);
    Doubles expected = reference::augment(s.n, s.channels, s.height, s.width, pixels, draws, kScale, kShift);
    const ValueId images = c.in(shape, pixels, DType::u8), moves = c.in({4 * s.n}, draws, DType::i32);
    const Doubles tolerance(expected.size(), 8 * kEps);  // two roundings of values up to 4
    const ValueId out = c.wide_out(shape, expected, tolerance);
    cases.push_back(c.of(Augment{images, kNone, moves, out, kScale, kShift}, " ", to_string(shape)));
  }
  for (const Shape& shape : {Shape{7, 3, 32, 32}, {7, 3, 5, 7}})
    cases.push_back(picked(9, shape, {8, 0, 3, 3, 7, 0, 8}, all_draws, type));
}

}  // namespace ct::cases
