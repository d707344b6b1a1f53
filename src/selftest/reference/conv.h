// Scalar references of convolution, pooling and their fusion. NHWC unless planar; weights [out][kh][kw][in].
#pragma once

#include "selftest/reference/scalar.h"

namespace ct::reference {

template <class T>
std::vector<T> to_channels_last(const std::vector<T>& x, int64_t n, int64_t channels, int64_t pixels) {
  std::vector<T> out(x.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p) out[(i * pixels + p) * channels + c] = x[(i * channels + c) * pixels + p];
  return out;
}

struct Conv {
  int64_t n, in, height, width, out, kernel, stride, pad;
  int64_t out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
};

/// The sums of a pixel's outputs grow side by side: one after the other, each addition would wait for the last.
template <class T>
std::vector<T> conv2d(const Conv& s, const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b) {
  const int64_t terms = s.kernel * s.kernel * s.in;
  std::vector<T> by_term(w.size()), y, sums;
  for (int64_t o = 0; o < s.out; ++o)
    for (int64_t t = 0; t < terms; ++t) by_term[t * s.out + o] = w[o * terms + t];
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oy = 0; oy < s.out_height(); ++oy)
      for (int64_t ox = 0; ox < s.out_width(); ++ox) {
        if (b.empty())
          sums.assign(s.out, T(0));
        else
          sums = b;
        for (int64_t ky = 0; ky < s.kernel; ++ky)
          for (int64_t kx = 0; kx < s.kernel; ++kx) {
            const int64_t iy = oy * s.stride - s.pad + ky, ix = ox * s.stride - s.pad + kx;
            if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
            for (int64_t i = 0; i < s.in; ++i) {
              const T& pixel = x[((n * s.height + iy) * s.width + ix) * s.in + i];
              const T* const weights = by_term.data() + ((ky * s.kernel + kx) * s.in + i) * s.out;
              for (int64_t o = 0; o < s.out; ++o) sums[o] += pixel * weights[o];
            }
          }
        y.insert(y.end(), sums.begin(), sums.end());
      }
  return y;
}

/// Windows of kernel x kernel, a stride apart; the first one starts `pad` outside the image.
struct Pool {
  int64_t n, height, width, channels, kernel, stride, pad = 0;
  int64_t out_height() const { return windows(height); }
  int64_t out_width() const { return windows(width); }
  int64_t outputs() const { return n * out_height() * out_width() * channels; }
  int64_t inputs() const { return n * height * width * channels; }
  /// The number of windows that fit into a padded line.
  int64_t windows(int64_t line) const { return line + 2 * pad < kernel ? 0 : (line + 2 * pad - kernel) / stride + 1; }
  /// The index of place k of a window in the elements of all images; -1: outside the image.
  int64_t at(int64_t image, int64_t py, int64_t px, int64_t k) const {
    const int64_t y = py * stride - pad + k / kernel, x = px * stride - pad + k % kernel;
    return y < 0 || y >= height || x < 0 || x >= width ? -1 : ((image * height + y) * width + x) * channels;
  }
};

/// argmax: the place of the first maximum.
template <class T>
std::vector<T> max_pool(const Pool& s, const std::vector<T>& x, std::vector<uint8_t>& argmax) {
  std::vector<T> y;
  argmax.clear();
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t py = 0; py < s.out_height(); ++py)
      for (int64_t px = 0; px < s.out_width(); ++px)
        for (int64_t c = 0; c < s.channels; ++c) {
          int64_t best = -1, place = -1;
          for (int64_t k = 0; k < s.kernel * s.kernel; ++k)
            if (const int64_t at = s.at(i, py, px, k); at >= 0 && (best < 0 || real(x[at + c]) > real(x[best])))
              best = at + c, place = k;
          y.push_back(x[best]);
          argmax.push_back(static_cast<uint8_t>(place));
        }
  return y;
}

/// Gradients of sum(dy * conv2d(x, w, b)) for every operand.
struct ConvGradients {
  std::vector<double> dx, dw, db;
};
inline ConvGradients conv2d_gradients(const Conv& s, const std::vector<double>& x, const std::vector<double>& w,
                                      const std::vector<double>& dy) {
  ConvGradients g{std::vector<double>(x.size()), std::vector<double>(w.size()),
                  std::vector<double>(static_cast<size_t>(s.out))};
  const double* d = dy.data();
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oy = 0; oy < s.out_height(); ++oy)
      for (int64_t ox = 0; ox < s.out_width(); ++ox)
        for (int64_t o = 0; o < s.out; ++o, ++d) {
          g.db[o] += *d;
          for (int64_t ky = 0; ky < s.kernel; ++ky)
            for (int64_t kx = 0; kx < s.kernel; ++kx) {
              const int64_t iy = oy * s.stride - s.pad + ky, ix = ox * s.stride - s.pad + kx;
              if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
              const int64_t from = ((n * s.height + iy) * s.width + ix) * s.in;
              const int64_t by = ((o * s.kernel + ky) * s.kernel + kx) * s.in;
              for (int64_t i = 0; i < s.in; ++i) {
                g.dx[from + i] += *d * w[by + i];
                g.dw[by + i] += *d * x[from + i];
              }
            }
        }
  return g;
}

/// Adds each dy to its window's argmax; an argmax outside the window (ReLU's 4) has no gradient.
inline std::vector<double> max_pool_gradient(const Pool& s, const std::vector<double>& dy,
                                             const std::vector<uint8_t>& argmax) {
  std::vector<double> dx(static_cast<size_t>(s.inputs()));
  size_t at = 0;
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t py = 0; py < s.out_height(); ++py)
      for (int64_t px = 0; px < s.out_width(); ++px)
        for (int64_t c = 0; c < s.channels; ++c, ++at)
          if (const int64_t k = argmax[at]; k < s.kernel * s.kernel) dx[s.at(i, py, px, k) + c] += dy[at];
  return dx;
}

/// 2x2 windows over a convolution's result.
inline Pool pooled(const Conv& s) { return {s.n, s.out_height(), s.out_width(), s.out, /*kernel=*/2, /*stride=*/2}; }

/// max-pool 2x2 of relu of the convolution; argmax 4 where ReLU cuts.
template <class T>
std::vector<T> conv_relu_pool(const Conv& s, const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b,
                              std::vector<uint8_t>& argmax) {
  std::vector<T> y = max_pool(pooled(s), conv2d(s, x, w, b), argmax);
  for (size_t i = 0; i < y.size(); ++i)
    if (real(y[i]) <= 0) {
      y[i] = 0;
      argmax[i] = 4;
    }
  return y;
}

inline ConvGradients conv_relu_pool_gradients(const Conv& s, const std::vector<double>& x, const std::vector<double>& w,
                                              const std::vector<double>& dy, const std::vector<uint8_t>& argmax) {
  return conv2d_gradients(s, x, w, max_pool_gradient(pooled(s), dy, argmax));
}

}  // namespace ct::reference
