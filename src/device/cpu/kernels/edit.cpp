#include "device/cpu/kernels/edit.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ct::cpu {
namespace {

/// The levels that each level becomes.
using Table = std::array<uint8_t, 256>;

/// One image and what becomes of it.
struct Image {
  int channels, height, width;
  const uint8_t* in;
  uint8_t* out;
  int plane() const { return height * width; }
};

uint8_t level(int v) { return static_cast<uint8_t>(std::clamp(v, 0, 255)); }
/// v(a, b, factor) of graph/edit_draw.h.
uint8_t between(int a, int b, int factor) {
  return static_cast<uint8_t>(std::clamp(a * kEditOne + factor * (b - a), 0, 255 * kEditOne) / kEditOne);
}
/// The grey of pixel i.
int grey(const Image& m, int i) {
  const int plane = m.plane();
  if (m.channels != 3) return m.in[i];
  return (19595 * m.in[i] + 38470 * m.in[plane + i] + 7471 * m.in[2 * plane + i] + (1 << 15)) >> 16;
}

template <class Of>
Table table_of(Of of) {
  Table table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = level(of(v));
  return table;
}
void look_up(const Table& table, const uint8_t* in, int n, uint8_t* out) {
  for (int i = 0; i < n; ++i) out[i] = table[in[i]];
}
void look_up(const Table& table, const Image& m) { look_up(table, m.in, m.channels * m.plane(), m.out); }

// ---- places

void move(const Image& m, int dy, int dx, bool flip) {
  const int begin = std::clamp(-dx, 0, m.width), end = std::clamp(m.width - dx, begin, m.width);
  for (int c = 0; c < m.channels; ++c)
    for (int y = 0; y < m.height; ++y) {
      uint8_t* const out = m.out + c * m.plane() + y * m.width;
      std::memset(out, 0, static_cast<size_t>(m.width));
      if (y + dy < 0 || y + dy >= m.height || begin == end) continue;
      const uint8_t* const in = m.in + c * m.plane() + (y + dy) * m.width;
      std::memcpy(out + begin, in + begin + dx, static_cast<size_t>(end - begin));
      if (flip) std::reverse(out, out + m.width);
    }
}

constexpr int kShareBits = 22;  // behind the point of a pixel's share, as in data/pictures/resize.h

/// What pixel i of `size` is made of, where they are made of `length`, no more than that: pixel `at`, and `share` of
/// the one after it.
struct Tap {
  int at, share;
};
Tap tap(int i, int length, int size) {
  const int from = (2 * i + 1) * length - size;  // its middle, in halves of 1 / size of a pixel
  const int at = from / (2 * size), rest = from % (2 * size);
  if (from < 0) return {0, 0};
  if (at >= length - 1) return {length - 1, 0};
  return {at, static_cast<int>(((int64_t{rest} << kShareBits) + size) / (2 * size))};
}
int mixed(int a, int b, int share) {
  return (a * ((1 << kShareBits) - share) + b * share + (1 << (kShareBits - 1))) >> kShareBits;
}

/// Rows first, each rounded, then columns. A row is needed for a few output rows in turn, so the last two are kept.
void resized_crop(const Image& m, int left, int top, int width, int height) {
  std::array<Tap, kMaxEditWidth> taps;
  for (int x = 0; x < m.width; ++x) taps[static_cast<size_t>(x)] = tap(x, width, m.width);
  std::array<std::array<uint8_t, kMaxEditWidth>, 2> rows;
  for (int c = 0; c < m.channels; ++c) {
    std::array<int, 2> held = {-1, -1};  // which rows of the box
    const auto row = [&](int y) -> const uint8_t* {
      auto& made = rows[static_cast<size_t>(y % 2)];
      if (std::exchange(held[static_cast<size_t>(y % 2)], y) == y) return made.data();
      const uint8_t* const in = m.in + c * m.plane() + (top + y) * m.width + left;
      for (int x = 0; x < m.width; ++x) {
        const auto [at, share] = taps[static_cast<size_t>(x)];
        made[static_cast<size_t>(x)] = static_cast<uint8_t>(mixed(in[at], in[at + (share != 0)], share));
      }
      return made.data();
    };
    for (int y = 0; y < m.height; ++y) {
      const auto [at, share] = tap(y, height, m.height);
      const uint8_t *const first = row(at), *const second = share != 0 ? row(at + 1) : first;
      uint8_t* const out = m.out + c * m.plane() + y * m.width;
      for (int x = 0; x < m.width; ++x) out[x] = static_cast<uint8_t>(mixed(first[x], second[x], share));
    }
  }
}

void affine(const Image& m, const std::array<int32_t, 7>& at) {
  for (int y = 0; y < m.height; ++y)
    for (int x = 0; x < m.width; ++x) {
      const int from_x = (at[0] * x + at[1] * y + at[2]) >> 16, from_y = (at[3] * x + at[4] * y + at[5]) >> 16;
      const bool inside = from_x >= 0 && from_x < m.width && from_y >= 0 && from_y < m.height;
      const int from = from_y * m.width + from_x, to = y * m.width + x;
      for (int c = 0; c < m.channels; ++c) m.out[c * m.plane() + to] = inside ? m.in[c * m.plane() + from] : uint8_t{0};
    }
}

/// `other` is null: `fill`.
void blend(const Image& m, const std::array<int32_t, 7>& at, const uint8_t* other, const uint8_t* fill) {
  std::memcpy(m.out, m.in, static_cast<size_t>(m.channels * m.plane()));
  const int share = at[5];
  for (int c = 0; c < m.channels; ++c)
    for (int y = at[1]; y < at[1] + at[3]; ++y) {
      const int begin = c * m.plane() + y * m.width + at[0];
      for (int i = begin; i < begin + at[2]; ++i) {
        const int own = m.in[i], its = other != nullptr ? other[i] : fill[c];
        m.out[i] = static_cast<uint8_t>((own * (kEditOne - share) + its * share + kEditOne / 2) / kEditOne);
      }
    }
}

// ---- colours

void contrast(const Image& m, int factor) {
  int64_t sum = 0;
  for (int i = 0; i < m.plane(); ++i) sum += grey(m, i);
  const auto mean = static_cast<int>((2 * sum + m.plane()) / (2 * m.plane()));
  look_up(table_of([=](int v) { return between(mean, v, factor); }), m);
}

void saturation(const Image& m, int factor) {
  for (int i = 0; i < m.plane(); ++i) {
    const int mean = grey(m, i);
    for (int at = i; at < m.channels * m.plane(); at += m.plane()) m.out[at] = between(mean, m.in[at], factor);
  }
}

void sharpness(const Image& m, int factor) {
  std::memcpy(m.out, m.in, static_cast<size_t>(m.channels * m.plane()));
  for (int c = 0; c < m.channels; ++c)
    for (int y = 1; y + 1 < m.height; ++y)
      for (int x = 1; x + 1 < m.width; ++x) {
        const int at = c * m.plane() + y * m.width + x;
        int sum = 4 * m.in[at];
        for (const int row : {at - m.width, at, at + m.width}) sum += m.in[row - 1] + m.in[row] + m.in[row + 1];
        m.out[at] = between((2 * sum + 13) / 26, m.in[at], factor);
      }
}

struct Rgb {
  int r, g, b;
};
/// A pixel with another hue.
Rgb with_hue(const Rgb& p, int shift) {
  const int value = std::max({p.r, p.g, p.b}), range = value - std::min({p.r, p.g, p.b});
  if (range == 0) return p;
  // Sixths of the circle, in units of 1 / range.
  const int sixths = value == p.r   ? p.g - p.b + (p.g < p.b ? 6 * range : 0)
                     : value == p.g ? p.b - p.r + 2 * range
                                    : p.r - p.g + 4 * range;
  const int hue = (255 * sixths / (6 * range) + shift) & 255, saturation = 255 * range / value;
  const int sector = 6 * hue / 255, part = 6 * hue % 255;
  const auto less = [&](int share) {
    return (2 * value * (255 * 255 - saturation * share) + 255 * 255) / (2 * 255 * 255);
  };
  const int low = less(255), falling = less(part), rising = less(255 - part);
  switch (sector) {
    case 1:
      return {falling, value, low};
    case 2:
      return {low, value, rising};
    case 3:
      return {low, falling, value};
    case 4:
      return {rising, low, value};
    case 5:
      return {value, low, falling};
    default:
      return {value, rising, low};
  }
}

void hue(const Image& m, int shift) {
  const int plane = m.plane();
  for (int i = 0; i < plane; ++i) {
    const Rgb made = with_hue({m.in[i], m.in[plane + i], m.in[2 * plane + i]}, shift);
    m.out[i] = static_cast<uint8_t>(made.r);
    m.out[plane + i] = static_cast<uint8_t>(made.g);
    m.out[2 * plane + i] = static_cast<uint8_t>(made.b);
  }
}

using Counts = std::array<int, 256>;

Table stretched(const Counts& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && counts[static_cast<size_t>(high)] == 0) --high;
  return table_of([=](int v) { return high > low ? 255 * (v - low) / (high - low) : v; });
}

/// As Pillow's ImageOps.equalize counts: steps of all pixels but those of the highest level, in 255 parts.
Table equalized(const Counts& counts, int pixels) {
  int high = 255;
  while (high > 0 && counts[static_cast<size_t>(high)] == 0) --high;
  const int step = (pixels - counts[static_cast<size_t>(high)]) / 255;
  if (step == 0) return table_of([](int v) { return v; });
  Table table;
  int below = step / 2;
  for (size_t v = 0; v < 256; below += counts[v++]) table[v] = level(below / step);
  return table;
}

template <class Make>
void by_counts(const Image& m, Make make) {
  for (int c = 0; c < m.channels; ++c) {
    const uint8_t* const in = m.in + c * m.plane();
    Counts counts = {};
    for (int i = 0; i < m.plane(); ++i) ++counts[in[i]];
    look_up(make(counts), in, m.plane(), m.out + c * m.plane());
  }
}

/// Image i of the batch; null: there is none.
const uint8_t* image(const EditArgs& a, int64_t i) {
  if (i < 0 || i >= a.n) return nullptr;
  const int64_t number = a.index != nullptr ? int64_t{a.index[i]} : i;
  return number < 0 || number >= a.count ? nullptr : a.images + number * a.channels * a.height * a.width;
}

void edit_image(const EditArgs& a, int64_t n) {
  const int64_t bytes = a.channels * a.height * a.width;
  const Image m{static_cast<int>(a.channels), static_cast<int>(a.height), static_cast<int>(a.width), image(a, n),
                a.out + n * bytes};
  if (m.in == nullptr) {
    std::memset(m.out, 0, static_cast<size_t>(bytes));
    return;
  }
  const EditDraw& draw = a.draws[n * a.stride];
  const auto& at = draw.at;
  switch (draw.kind) {
    case EditKind::move:
      return move(m, at[0], at[1], at[2] != 0);
    case EditKind::resized_crop:
      return resized_crop(m, at[0], at[1], at[2], at[3]);
    case EditKind::blend:
      return blend(m, at, image(a, at[4]), a.fill);
    case EditKind::brightness:
      return look_up(table_of([&](int v) { return between(0, v, at[0]); }), m);
    case EditKind::contrast:
      return contrast(m, at[0]);
    case EditKind::saturation:
      return saturation(m, at[0]);
    case EditKind::sharpness:
      return sharpness(m, at[0]);
    case EditKind::hue:
      if (a.channels == 3) return hue(m, at[0]);
      break;
    case EditKind::posterize:
      return look_up(table_of([&](int v) { return v & (0xff00 >> at[0]); }), m);
    case EditKind::solarize:
      return look_up(table_of([&](int v) { return v < at[0] ? v : 255 - v; }), m);
    case EditKind::auto_contrast:
      return by_counts(m, stretched);
    case EditKind::equalize:
      return by_counts(m, [&](const Counts& counts) { return equalized(counts, m.plane()); });
    case EditKind::affine:
      return affine(m, at);
    case EditKind::none:
      break;
  }
  std::memcpy(m.out, m.in, static_cast<size_t>(bytes));
}

}  // namespace

void edit(const EditArgs& args) {
  check(args.width <= kMaxEditWidth, "edit: images of width ", args.width, ", at most ", kMaxEditWidth);
  for (int64_t n = 0; n < args.n; ++n) edit_image(args, n);
}

}  // namespace ct::cpu
