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

}  // namespace

Resizer::Side::Side(double at, double length, int size, int begin, int wanted)
    : origin(static_cast<int>(std::floor(at))) {
  const double from = at - origin;
  const int pixels = static_cast<int>(std::ceil(from + length));
  const double step = length / size, support = std::max(step, 1.0);
  for (int i = begin; i < begin + wanted; ++i) {
    const double center = from + (i + 0.5) * step;
    const int from_pixel = std::max(static_cast<int>(center - support + 0.5), 0);
    const int to_pixel = std::min(static_cast<int>(center + support + 0.5), pixels);
    first.push_back(from_pixel);
    count.push_back(to_pixel - from_pixel);
    taps = std::max(taps, to_pixel - from_pixel);
  }
  taps = padded_taps(taps);
  weights.resize(static_cast<size_t>(wanted) * static_cast<size_t>(taps));
  std::vector<double> shares;
  for (size_t i = 0; i < static_cast<size_t>(wanted); ++i) {
    const double center = from + (begin + static_cast<int>(i) + 0.5) * step;
    shares.assign(static_cast<size_t>(count[i]), 0);
    double sum = 0;
    for (size_t t = 0; t < shares.size(); ++t) {
      const double distance = std::abs((static_cast<int>(t) + first[i] - center + 0.5) * (1 / support));
      shares[t] = distance < 1 ? 1 - distance : 0;
      sum += shares[t];
    }
    int32_t* const to = weights.data() + i * static_cast<size_t>(taps);
    for (size_t t = 0; t < shares.size(); ++t)
      to[t] = static_cast<int32_t>(0.5 + (sum != 0 ? shares[t] / sum : shares[t]) * kOne);
  }
}

Resizer::Resizer(const Resizing& r)
    : columns_(r.box.x, r.box.width, r.size.width, r.part.x, r.part.width),
      rows_(r.box.y, r.box.height, r.size.height, r.part.y, r.part.height) {}

Window Resizer::looked_at() const {
  return {columns_.origin + columns_.begin(), rows_.origin + rows_.begin(), columns_.end() - columns_.begin(),
          rows_.end() - rows_.begin()};
}

void Resizer::run(const Picture& picture, int x, int y, uint8_t* planar) const {
  const Side &columns = columns_, &rows = rows_;
  const int left = columns.origin - x, top = rows.origin - y;
  check(left + columns.begin() >= 0 && left + columns.end() <= picture.width && top + rows.begin() >= 0 &&
            top + rows.end() <= picture.height,
        "a picture of ", picture.width, "x", picture.height, " at ", x, ",", y, " does not hold what is resized");

  // Rows become as wide as they must be, and are kept for the columns' turn.
  const size_t wanted = columns.first.size();
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
  const size_t plane = wanted * rows.first.size();
  for (size_t i = 0; i < rows.first.size(); ++i) {
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
  Resizer(all).run(picture, 0, 0, planar.data());
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c) result.rgb[3 * i + c] = planar[c * plane + i];
  return result;
}

}  // namespace ct
