// Scalar reference of resnet9 (src/model/resnet9.h), by name of parameter.
#pragma once

#include <algorithm>

#include "reference/resnet.h"

namespace ct::reference {

/// The maximum of windows of that size side by side.
template <class T>
Features<T> pooled(const Resnet& s, const Features<T>& in, int64_t kernel) {
  const Pool pool{s.n, in.side, in.side, in.channels, kernel, kernel};
  std::vector<uint8_t> places;
  return {max_pool(pool, in.x, places), pool.out_height(), in.channels};
}

/// images [n][side][side][3], normalised, of a side that is a multiple of 8; the mean loss.
template <class T>
T resnet9_loss(const Resnet& s, const NamedParameters<T>& p, const std::vector<T>& images,
               const std::vector<int>& labels) {
  const auto conv = [&](const std::string& name, const Features<T>& in, int64_t width) {
    return plain_conv(s, p, name + ".conv", in, width, 3, 1);
  };
  const auto norm = [&](const std::string& name, const Features<T>& in, const std::vector<T>& residual = {}) {
    return norm_layer(s, p, name + ".bn", in, true, residual);
  };
  Features<T> h = norm("prep", conv("prep", {images, s.side, 3}, s.width));
  for (const int layer : {1, 2, 3}) {
    const std::string name = "layer" + std::to_string(layer);
    const int64_t width = s.width << layer;
    h = norm(name, pooled(s, conv(name, h, width), 2));
    if (layer == 2) continue;
    const std::string first = name + ".residual.0", second = name + ".residual.1";
    h = norm(second, conv(second, norm(first, conv(first, h, width)), width), h.x);
  }
  return loss_of_features(s, p, pooled(s, h, std::min<int64_t>(4, h.side)), labels);
}

}  // namespace ct::reference
