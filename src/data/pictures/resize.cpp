#include "data/pictures/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "data/pictures/resize_kernels.h"

namespace ct {
namespace {

constexpr int kOne = 1 << kWeightBits;

/// One side of a picture that is resized: which pixels each wanted pixel is made of, and how much of each.
struct Side {
  std::vector<int> first;  // counted from the box's first whole pixel
  std::vector<int> count;
  std::vector<int32_t> weights;  // `taps` for each, zero behind its count
  int taps = 0;

  int begin() const { return first.front(); }
  int end() const { return first.back() + count.back(); }
};

/// `at` and `length` in whole or broken pixels become `size` pixels, of which `wanted` from `begin` on count.
Side make_side(double at, double length, int size, int begin, int wanted) {
  const double from = at - std::floor(at);
  const int pixels = static_cast<int>(std::ceil(from + length));
  const double step = length / size, support = std::max(step, 1.0);
  Side side;
  std::vector<double> weights;
  for (int i = begin; i < begin + wanted; ++i) {
    const double center = from + (i + 0.5) * step;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int last = std::min(static_cast<int>(center + support + 0.5), pixels);
    side.first.push_back(first);
    side.count.push_back(last - first);
    side.taps = std::max(side.taps, last - first);
  }
  side.taps = padded_taps(side.taps);
  side.weights.resize(static_cast<size_t>(wanted) * static_cast<size_t>(side.taps));
  for (size_t i = 0; i < static_cast<size_t>(wanted); ++i) {
    const double center = from + (begin + static_cast<int>(i) + 0.5) * step;
    weights.assign(static_cast<size_t>(side.count[i]), 0);
    double sum = 0;
    for (size_t t = 0; t < weights.size(); ++t) {
      const double distance = std::abs((static_cast<int>(t) + side.first[i] - center + 0.5) * (1 / support));
      weights[t] = distance < 1 ? 1 - distance : 0;
      sum += weights[t];
    }
    int32_t* const to = side.weights.data() + i * static_cast<size_t>(side.taps);
    for (size_t t = 0; t < weights.size(); ++t)
      to[t] = static_cast<int32_t>(0.5 + (sum != 0 ? weights[t] / sum : weights[t]) * kOne);
  }
  return side;
}

Side columns_of(const Resizing& r) { return make_side(r.box.x, r.box.width, r.size.width, r.part.x, r.part.width); }
Side rows_of(const Resizing& r) { return make_side(r.box.y, r.box.height, r.size.height, r.part.y, r.part.height); }
int whole(double at) { return static_cast<int>(std::floor(at)); }

}  // namespace

Window looked_at(const Resizing& resizing) {
  const Side columns = columns_of(resizing), rows = rows_of(resizing);
  return {whole(resizing.box.x) + columns.begin(), whole(resizing.box.y) + rows.begin(),
          columns.end() - columns.begin(), rows.end() - rows.begin()};
}

void resize(const Picture& picture, int x, int y, const Resizing& resizing, uint8_t* planar) {
  const Side columns = columns_of(resizing), rows = rows_of(resizing);
  const int left = whole(resizing.box.x) - x, top = whole(resizing.box.y) - y;
  check(left + columns.begin() >= 0 && left + columns.end() <= picture.width && top + rows.begin() >= 0 &&
            top + rows.end() <= picture.height,
        "a picture of ", picture.width, "x", picture.height, " at ", x, ",", y, " does not hold what is resized");

  // Rows become as wide as they must be, and are kept for the columns' turn.
  const auto wanted = static_cast<size_t>(resizing.part.width);
  const size_t stride = narrow_row_bytes(wanted);
  const int height = rows.end() - rows.begin();
  std::vector<uint8_t, Uncleared<uint8_t>> narrow(stride * static_cast<size_t>(height));
  std::vector<int> offsets(columns.first.size());  // bytes from a row's beginning
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = 3 * (left + columns.first[i]);
  // The kernel reads a few pixels too many, for nothing, which the last rows do not have behind them.
  const size_t row_bytes = static_cast<size_t>(picture.width) * 3;
  const size_t reach = static_cast<size_t>(offsets.back()) + bytes_read(columns.taps);
  std::vector<std::vector<uint8_t>> copies;
  std::vector<const uint8_t*> from(static_cast<size_t>(height));
  for (int i = 0; i < height; ++i) {
    const uint8_t* row = picture.row(top + rows.begin() + i);
    if (static_cast<size_t>(picture.rgb.data() + picture.rgb.size() - row) < reach) {
      std::vector<uint8_t>& copy = copies.emplace_back(reach);
      std::memcpy(copy.data(), row, std::min(row_bytes, reach));
      row = copy.data();
    }
    from[static_cast<size_t>(i)] = row;
  }
  resize_rows({.rows = from,
               .offsets = offsets,
               .weights = columns.weights.data(),
               .taps = columns.taps,
               .out = narrow.data()});

  std::vector<uint8_t> line(stride);
  const size_t plane = wanted * static_cast<size_t>(resizing.part.height);
  for (size_t i = 0; i < static_cast<size_t>(resizing.part.height); ++i) {
    blend_rows(
        {.first = narrow.data() + static_cast<size_t>(rows.first[i] - rows.begin()) * stride,
         .weights = {rows.weights.data() + i * static_cast<size_t>(rows.taps), static_cast<size_t>(rows.count[i])},
         .pixels = wanted,
         .line = line.data(),
         .out = planar + i * wanted,
         .plane = plane});
  }
}

Picture resized(const Picture& picture, PictureSize size) {
  const Resizing all{.box = {0, 0, static_cast<double>(picture.width), static_cast<double>(picture.height)},
                     .size = size,
                     .part = {0, 0, size.width, size.height}};
  Picture result(size.width, size.height);
  const size_t plane = result.rgb.size() / 3;
  std::vector<uint8_t, Uncleared<uint8_t>> planar(result.rgb.size());
  resize(picture, 0, 0, all, planar.data());
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c) result.rgb[3 * i + c] = planar[c * plane + i];
  return result;
}

}  // namespace ct
