#include "graph/layout.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

Layout Layout::vector(int64_t n) { return {{n}, {1}, n}; }

Layout Layout::matrix(int64_t out, int64_t in) {
  const int64_t row = round_up(in, kRowPad);
  return {{out, in}, {row, 1}, out * row};
}

Layout Layout::tokens(int64_t n, int64_t t, int64_t c) {
  const int64_t row = round_up(c, kRowPad);
  return {{n, t, c}, {t * row, row, 1}, n * t * row};
}

Layout Layout::matrix_of_flattened(int64_t out, int64_t channels, int64_t height, int64_t width) {
  const int64_t row = round_up(channels * height * width, kRowPad);
  return {{out, channels, height, width}, {row, 1, width * channels, channels}, out * row};
}

Layout Layout::convolution(int64_t out, int64_t in, int64_t kernel) {
  return {{out, in, kernel, kernel}, {kernel * kernel * in, 1, kernel * in, in}, out * in * kernel * kernel};
}

int64_t Layout::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Layout Layout::rows(int64_t n) const {
  Layout part = *this;
  part.dims[0] = n;
  part.stored = n * strides[0];
  return part;
}

namespace {
/// Calls f(storage position) for every element in PyTorch's order.
template <class F>
void for_each_position(const Layout& layout, F f) {
  std::vector<int64_t> index(layout.dims.size(), 0);
  int64_t position = 0;
  const int64_t n = layout.numel();
  for (int64_t i = 0; i < n; ++i) {
    f(position);
    for (size_t d = index.size(); d-- > 0;) {
      position += layout.strides[d];
      if (++index[d] < layout.dims[d]) break;
      position -= layout.strides[d] * layout.dims[d];
      index[d] = 0;
    }
  }
}
}  // namespace

void Layout::to_torch(std::span<const float> storage, std::span<float> torch) const {
  check(static_cast<int64_t>(storage.size()) == stored && static_cast<int64_t>(torch.size()) == numel(),
        "layout sizes");
  size_t i = 0;
  for_each_position(*this, [&](int64_t at) { torch[i++] = storage[static_cast<size_t>(at)]; });
}

void Layout::from_torch(std::span<const float> torch, std::span<float> storage) const {
  check(static_cast<int64_t>(storage.size()) == stored && static_cast<int64_t>(torch.size()) == numel(),
        "layout sizes");
  std::fill(storage.begin(), storage.end(), 0.0f);
  size_t i = 0;
  for_each_position(*this, [&](int64_t at) { storage[static_cast<size_t>(at)] = torch[i++]; });
}

}  // namespace ct
