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

/// The same order, without dimensions of one element, and with neighbours joined that follow each other in storage too.
Layout joined(const Layout& layout) {
  Layout all{{1}, {layout.stored}, layout.stored};
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    if (layout.dims[d] == 1) continue;
    if (all.strides.back() == layout.dims[d] * layout.strides[d]) {
      all.dims.back() *= layout.dims[d];
      all.strides.back() = layout.strides[d];
    } else {
      all.dims.push_back(layout.dims[d]);
      all.strides.push_back(layout.strides[d]);
    }
  }
  return all;
}

/// Calls f(place in PyTorch's order, storage position, elements, stride) for each row of the joined last dimension.
template <class F>
void for_each_row(const Layout& layout, F f) {
  const Layout all = joined(layout);
  const int64_t elements = all.dims.back(), stride = all.strides.back(), n = layout.numel();
  std::vector<int64_t> index(all.dims.size() - 1, 0);
  int64_t position = 0;
  for (int64_t i = 0; i < n; i += elements) {
    f(i, position, elements, stride);
    for (size_t d = index.size(); d-- > 0;) {
      position += all.strides[d];
      if (++index[d] < all.dims[d]) break;
      position -= all.strides[d] * all.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void Layout::to_torch(std::span<const float> storage, std::span<float> torch) const {
  check(static_cast<int64_t>(storage.size()) == stored && static_cast<int64_t>(torch.size()) == numel(),
        "layout sizes");
  for_each_row(*this, [&](int64_t i, int64_t at, int64_t elements, int64_t stride) {
    float* const out = torch.data() + i;
    const float* const in = storage.data() + at;
    if (stride == 1) {
      std::copy_n(in, elements, out);
    } else {
      for (int64_t k = 0; k < elements; ++k) out[k] = in[k * stride];
    }
  });
}

void Layout::from_torch(std::span<const float> torch, std::span<float> storage) const {
  check(static_cast<int64_t>(storage.size()) == stored && static_cast<int64_t>(torch.size()) == numel(),
        "layout sizes");
  if (stored > numel()) std::ranges::fill(storage, 0.0f);
  for_each_row(*this, [&](int64_t i, int64_t at, int64_t elements, int64_t stride) {
    const float* const in = torch.data() + i;
    float* const out = storage.data() + at;
    if (stride == 1) {
      std::copy_n(in, elements, out);
    } else {
      for (int64_t k = 0; k < elements; ++k) out[k * stride] = in[k];
    }
  });
}

}  // namespace ct
