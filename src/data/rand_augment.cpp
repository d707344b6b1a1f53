#include "data/rand_augment.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace ct {
namespace {

int32_t fixed(double value) { return static_cast<int32_t>(std::floor(value * kEditOne + 0.5)); }

/// Pixel (y, x)'s middle comes from (a x + b y + c, d x + e y + f).
EditDraw affine(double a, double b, double c, double d, double e, double f) {
  return {EditKind::affine,
          {fixed(a), fixed(b), fixed(c + 0.5 * a + 0.5 * b), fixed(d), fixed(e), fixed(f + 0.5 * d + 0.5 * e)}};
}

EditDraw rotation(double degrees, int height, int width) {
  const double angle = degrees * std::numbers::pi / 180, cosine = std::cos(angle), sine = std::sin(angle);
  const double x = width / 2.0, y = height / 2.0;  // the middle stays
  return affine(cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y);
}

}  // namespace

EditDraw rand_augment_edit(int which, double strength, bool negative, int height, int width) {
  const double sign = negative ? -1 : 1;
  // A translation by whole pixels.
  const auto moved = [&](int side) { return sign * std::trunc(150.0 / 331 * side * strength); };
  const int32_t factor = fixed(1 + sign * 0.9 * strength);
  switch (which) {
    case 0:
      return {};
    case 1:
      return affine(1, sign * 0.3 * strength, 0, 0, 1, 0);
    case 2:
      return affine(1, 0, 0, sign * 0.3 * strength, 1, 0);
    case 3:
      return affine(1, 0, -moved(width), 0, 1, 0);
    case 4:
      return affine(1, 0, 0, 0, 1, -moved(height));
    case 5:
      return rotation(sign * 30 * strength, height, width);
    case 6:
      return {EditKind::brightness, {factor}};
    case 7:
      return {EditKind::saturation, {factor}};
    case 8:
      return {EditKind::contrast, {factor}};
    case 9:
      return {EditKind::sharpness, {factor}};
    case 10:
      return {EditKind::posterize, {8 - static_cast<int32_t>(std::nearbyint(4 * strength))}};
    case 11:
      return {EditKind::solarize, {static_cast<int32_t>(std::ceil(255 * (1 - strength)))}};
    case 12:
      return {EditKind::auto_contrast};
    case 13:
      return {EditKind::equalize};
  }
  fail(ExitCode::bug, "no operation ", which, " of RandAugment");
}

}  // namespace ct
