#include "selftest/reference/augment.h"

#include <cmath>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<Augment>, DType type) {
  const Doubles all_draws = {0, 0, 0, 0, 0, 0, 1, 0, 4, -3, 0, 0, -4, 4, 1, 0, 2, 1, 1, 0, -40, 0, 0, 0, 0, 60, 1, 0};
  struct Size {
    int64_t n, channels, height, width;
  };
  for (const Size& s : {Size{7, 3, 32, 32}, {1, 3, 32, 32}, {4, 3, 5, 7}, {3, 1, 9, 50}, {7, 3, 3, 16}}) {
    Case c(type);
    const Shape shape{s.n, s.channels, s.height, s.width};
    Doubles pixels = normal(at(shape.numel()), 1, 100);
    for (double& p : pixels) p = std::fmod(std::floor(std::abs(p)), 256);
    const Doubles draws(all_draws.begin(), all_draws.begin() + 4 * s.n);
    const std::vector<float> scale{1 / 63.0f, 1 / 62.0f, 1 / 66.0f}, shift{-1.99f, -1.98f, -1.71f};
    Doubles expected = reference::augment(s.n, s.channels, s.height, s.width, pixels, draws, scale, shift);
    const ValueId images = c.in(shape, pixels, DType::u8), moves = c.in({4 * s.n}, draws, DType::i32);
    const Doubles tolerance(expected.size(), 8 * kEps);  // two roundings of values up to 4
    const ValueId out = c.wide_out(shape, expected, tolerance);
    cases.push_back(c.of(Augment{images, moves, out, scale, shift}, " ", to_string(shape)));
  }
}

}  // namespace ct::cases
