// Scalar reference of edits, from the definitions of Pillow and torchvision, in double where the device computes in
// integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/edit_draw.h"

namespace ct::reference {

/// A planar image, [channel][y][x].
struct EditImage {
  int64_t channels, height, width;
  std::vector<double> at;
  double& operator()(int64_t c, int64_t y, int64_t x) { return at[static_cast<size_t>((c * height + y) * width + x)]; }
  double operator()(int64_t c, int64_t y, int64_t x) const {
    return at[static_cast<size_t>((c * height + y) * width + x)];
  }
  /// The pixel; black outside the image.
  double outside_black(int64_t c, int64_t y, int64_t x) const {
    return y >= 0 && y < height && x >= 0 && x < width ? (*this)(c, y, x) : 0;
  }
};

/// Image.blend: truncated, in 0..255.
inline double blended(double a, double b, double factor) {
  return std::clamp(std::floor(a + (b - a) * factor), 0.0, 255.0);
}

/// convert("L").
inline double luma(const EditImage& m, int64_t y, int64_t x) {
  if (m.channels != 3) return m(0, y, x);
  return std::floor((19595 * m(0, y, x) + 38470 * m(1, y, x) + 7471 * m(2, y, x)) / 65536 + 0.5);
}

/// A line of `in` resized to `size`, as Image.resize(BILINEAR) does: a triangle filter at least a pixel wide, weights
/// with 22 fractional bits that add up to 1, and a rounded sum.
inline std::vector<double> resized_line(const std::vector<double>& in, int64_t size) {
  const double step = static_cast<double>(in.size()) / static_cast<double>(size), support = std::max(step, 1.0);
  std::vector<double> out;
  for (int64_t i = 0; i < size; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * step;
    std::vector<double> weights;
    double sum = 0, result = 0;
    for (size_t t = 0; t < in.size(); ++t) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(t) + 0.5 - center) / support));
      sum += weights.back();
    }
    for (size_t t = 0; t < in.size(); ++t) result += in[t] * std::floor(weights[t] / sum * 0x1p22 + 0.5) * 0x1p-22;
    out.push_back(std::floor(result + 0.5));
  }
  return out;
}

inline EditImage resized_crop(const EditImage& m, const std::array<int32_t, 7>& box) {
  EditImage out = m;
  for (int64_t c = 0; c < m.channels; ++c) {
    std::vector<std::vector<double>> rows;
    for (int64_t y = box[1]; y < box[1] + box[3]; ++y) {
      std::vector<double> row;
      for (int64_t x = box[0]; x < box[0] + box[2]; ++x) row.push_back(m(c, y, x));
      rows.push_back(resized_line(row, m.width));
    }
    for (int64_t x = 0; x < m.width; ++x) {
      std::vector<double> column;
      for (const auto& row : rows) column.push_back(row[static_cast<size_t>(x)]);
      column = resized_line(column, m.height);
      for (int64_t y = 0; y < m.height; ++y) out(c, y, x) = column[static_cast<size_t>(y)];
    }
  }
  return out;
}

/// adjust_hue: converts to HSV, adds to the hue modulo 256, and converts back.
inline void shift_hue(double& r, double& g, double& b, int32_t shift) {
  const double value = std::max({r, g, b}), range = value - std::min({r, g, b});
  double hue = 0, saturation = 0;
  if (range > 0) {
    // In 255ths of the circle, with a margin so that rounding does not fall below an integer.
    const double sixths = value == r ? (g - b) / range : value == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    hue = std::floor(255 * std::fmod(sixths / 6 + 1, 1) + 1e-9);
    saturation = std::floor(255 * range / value + 1e-9);
  }
  const double turned = std::fmod(hue + shift, 256) * 6 / 255, s = saturation / 255;
  const auto sector = static_cast<int>(turned + 1e-9);
  const double part = turned - sector;
  const double low = std::floor(value * (1 - s) + 0.5), falling = std::floor(value * (1 - s * part) + 0.5 + 1e-9),
               rising = std::floor(value * (1 - s * (1 - part)) + 0.5 + 1e-9);
  const double rgb[6][3] = {{value, rising, low},  {falling, value, low}, {low, value, rising},
                            {low, falling, value}, {rising, low, value},  {value, low, falling}};
  const double* const made = rgb[sector % 6];
  r = made[0], g = made[1], b = made[2];
}

/// ImageOps.autocontrast and ImageOps.equalize: maps a channel's levels by its histogram.
inline std::map<double, double> levels_by_histogram(const EditImage& m, int64_t c, EditKind kind) {
  std::map<double, double> counts, levels;
  double pixels = 0;
  for (int64_t y = 0; y < m.height; ++y)
    for (int64_t x = 0; x < m.width; ++x) ++counts[m(c, y, x)], ++pixels;
  const double low = counts.begin()->first, high = counts.rbegin()->first;
  const double step = std::floor((pixels - counts.rbegin()->second) / 255);
  double below = std::floor(step / 2);
  for (const auto& [level, count] : counts) {
    if (kind == EditKind::auto_contrast)
      levels[level] = high > low ? std::floor(255 * (level - low) / (high - low)) : level;
    else
      levels[level] = step == 0 ? level : std::min(255.0, std::floor(below / step));
    below += count;
  }
  return levels;
}

/// Image `n` of a batch, edited.
inline EditImage edited(const std::vector<EditImage>& batch, size_t n, const EditDraw& draw,
                        const std::vector<uint8_t>& fill) {
  const EditImage& in = batch[n];
  EditImage out = in;
  const auto& at = draw.at;
  const double factor = at[0] / static_cast<double>(kEditOne);
  const auto places = [&](auto of) {
    for (int64_t c = 0; c < in.channels; ++c)
      for (int64_t y = 0; y < in.height; ++y)
        for (int64_t x = 0; x < in.width; ++x) out(c, y, x) = of(c, y, x);
  };
  switch (draw.kind) {
    case EditKind::none:
      break;
    case EditKind::move:
      places([&](int64_t c, int64_t y, int64_t x) {
        return in.outside_black(c, y + at[0], (at[2] != 0 ? in.width - 1 - x : x) + at[1]);
      });
      break;
    case EditKind::resized_crop:
      return resized_crop(in, at);
    case EditKind::blend:
      places([&](int64_t c, int64_t y, int64_t x) {
        if (x < at[0] || x >= at[0] + at[2] || y < at[1] || y >= at[1] + at[3]) return in(c, y, x);
        const double share = at[5] / static_cast<double>(kEditOne);
        const bool none = at[4] < 0 || at[4] >= std::ssize(batch);
        const double its = none ? fill[static_cast<size_t>(c)] : batch[static_cast<size_t>(at[4])](c, y, x);
        return std::floor((1 - share) * in(c, y, x) + share * its + 0.5);
      });
      break;
    case EditKind::brightness:
      places([&](int64_t c, int64_t y, int64_t x) { return blended(0, in(c, y, x), factor); });
      break;
    case EditKind::contrast: {
      double sum = 0;
      for (int64_t y = 0; y < in.height; ++y)
        for (int64_t x = 0; x < in.width; ++x) sum += luma(in, y, x);
      const double mean = std::floor(sum / static_cast<double>(in.height * in.width) + 0.5);
      places([&](int64_t c, int64_t y, int64_t x) { return blended(mean, in(c, y, x), factor); });
      break;
    }
    case EditKind::saturation:
      places([&](int64_t c, int64_t y, int64_t x) { return blended(luma(in, y, x), in(c, y, x), factor); });
      break;
    case EditKind::sharpness:
      places([&](int64_t c, int64_t y, int64_t x) {
        if (y == 0 || x == 0 || y == in.height - 1 || x == in.width - 1) return in(c, y, x);
        double sum = 4 * in(c, y, x);
        for (int64_t i = 0; i < 9; ++i) sum += in(c, y - 1 + i / 3, x - 1 + i % 3);
        return blended(std::floor(sum / 13 + 0.5), in(c, y, x), factor);
      });
      break;
    case EditKind::hue:
      if (in.channels == 3)
        for (int64_t y = 0; y < in.height; ++y)
          for (int64_t x = 0; x < in.width; ++x) shift_hue(out(0, y, x), out(1, y, x), out(2, y, x), at[0]);
      break;
    case EditKind::posterize:
      places([&](int64_t c, int64_t y, int64_t x) {
        const double kept = std::exp2(8 - at[0]);
        return std::floor(in(c, y, x) / kept) * kept;
      });
      break;
    case EditKind::solarize:
      places([&](int64_t c, int64_t y, int64_t x) { return in(c, y, x) < at[0] ? in(c, y, x) : 255 - in(c, y, x); });
      break;
    case EditKind::auto_contrast:
    case EditKind::equalize:
      for (int64_t c = 0; c < in.channels; ++c) {
        const auto levels = levels_by_histogram(in, c, draw.kind);
        for (int64_t y = 0; y < in.height; ++y)
          for (int64_t x = 0; x < in.width; ++x) out(c, y, x) = levels.at(in(c, y, x));
      }
      break;
    case EditKind::affine:
      places([&](int64_t c, int64_t y, int64_t x) {
        const auto line = [&](int first) {
          return static_cast<int64_t>(
              std::floor((static_cast<double>(at[static_cast<size_t>(first)]) * static_cast<double>(x) +
                          static_cast<double>(at[static_cast<size_t>(first) + 1]) * static_cast<double>(y) +
                          at[static_cast<size_t>(first) + 2]) /
                         kEditOne));
        };
        return in.outside_black(c, line(3), line(0));
      });
      break;
  }
  return out;
}

/// A batch [n][channels][height][width].
inline std::vector<double> edit(int64_t n, int64_t channels, int64_t height, int64_t width,
                                const std::vector<double>& images, const std::vector<EditDraw>& draws,
                                const std::vector<uint8_t>& fill) {
  const auto size = static_cast<size_t>(channels * height * width);
  std::vector<EditImage> batch;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i)
    batch.push_back({channels,
                     height,
                     width,
                     {images.begin() + static_cast<std::ptrdiff_t>(i * size),
                      images.begin() + static_cast<std::ptrdiff_t>((i + 1) * size)}});
  std::vector<double> out;
  for (size_t i = 0; i < batch.size(); ++i) {
    const EditImage made = edited(batch, i, draws[i], fill);
    out.insert(out.end(), made.at.begin(), made.at.end());
  }
  return out;
}

}  // namespace ct::reference
