// Scalar references of patches, class token and position embeddings. Dense rows, no pads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ct::reference {

struct PatchGrid {
  int64_t n, channels, height, width, patch, shift;
  int64_t copies() const { return shift > 0 ? 5 : 1; }
  int64_t tokens() const { return height / patch * (width / patch); }
  int64_t columns() const { return patch * patch * copies() * channels; }
};

/// images [n][channels][height][width] -> [n][tokens][(row, column, copy, channel)].
inline std::vector<double> patches(const PatchGrid& s, const std::vector<double>& images) {
  const std::array<std::array<int64_t, 2>, 5> from = {
      // {down, right}: the offset of the copied pixel
      {{0, 0}, {0, -s.shift}, {0, s.shift}, {-s.shift, 0}, {s.shift, 0}}};
  std::vector<double> y;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t top = 0; top < s.height; top += s.patch)
      for (int64_t left = 0; left < s.width; left += s.patch)
        for (int64_t row = top; row < top + s.patch; ++row)
          for (int64_t column = left; column < left + s.patch; ++column)
            for (int64_t copy = 0; copy < s.copies(); ++copy)
              for (int64_t c = 0; c < s.channels; ++c) {
                const int64_t v = row + from[copy][0], h = column + from[copy][1];
                const bool inside = v >= 0 && v < s.height && h >= 0 && h < s.width;
                y.push_back(inside ? images[((n * s.channels + c) * s.height + v) * s.width + h] : 0);
              }
  return y;
}

struct TokenRows {
  int64_t n, tokens, columns;  // the result's
  bool class_token;
  int64_t own() const { return class_token ? 1 : 0; }
};

template <class T>
std::vector<T> tokens(const TokenRows& s, const std::vector<T>& x, const std::vector<T>& class_token,
                      const std::vector<T>& positions) {
  std::vector<T> y;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t t = 0; t < s.tokens; ++t)
      for (int64_t c = 0; c < s.columns; ++c) {
        const T& token = t < s.own() ? class_token[c] : x[(n * (s.tokens - s.own()) + t - s.own()) * s.columns + c];
        y.push_back(token + positions[t * s.columns + c]);
      }
  return y;
}

struct TokenGradients {
  std::vector<double> dx, dclass_token, dpositions;
};
inline TokenGradients token_gradients(const TokenRows& s, const std::vector<double>& dy) {
  TokenGradients g{.dpositions = std::vector<double>(static_cast<size_t>(s.tokens * s.columns))};
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t i = 0; i < s.tokens * s.columns; ++i) {
      const double d = dy[n * s.tokens * s.columns + i];
      g.dpositions[i] += d;
      if (i >= s.own() * s.columns) g.dx.push_back(d);
    }
  if (s.class_token) g.dclass_token.assign(g.dpositions.begin(), g.dpositions.begin() + s.columns);
  return g;
}

/// Token 0 of each image of [n][tokens][columns].
template <class T>
std::vector<T> take_token(int64_t n, int64_t tokens, int64_t columns, const std::vector<T>& x) {
  std::vector<T> y;
  for (int64_t i = 0; i < n; ++i)
    y.insert(y.end(), x.begin() + i * tokens * columns, x.begin() + i * tokens * columns + columns);
  return y;
}
inline std::vector<double> take_token_gradient(int64_t n, int64_t tokens, int64_t columns,
                                               const std::vector<double>& dy) {
  std::vector<double> dx(static_cast<size_t>(n * tokens * columns));
  for (int64_t i = 0; i < n * columns; ++i) dx[i / columns * tokens * columns + i % columns] = dy[i];
  return dx;
}

}  // namespace ct::reference
