// Scalar reference of airbench (src/model/airbench.h), by name of parameter.
#pragma once

#include "reference/resnet9.h"

namespace ct::reference {

/// images [n][side][side][3], normalised, of a side that is a multiple of 8; the mean loss.
template <class T>
T airbench_loss(const Resnet& s, const NamedParameters<T>& p, const std::vector<T>& images,
                const std::vector<int>& labels) {
  const auto conv = [&](const std::string& name, const Features<T>& in, int64_t width) {
    return plain_conv(s, p, name + ".conv", in, width, 3, 1);
  };
  const auto norm = [&](const std::string& name, const Features<T>& in) {
    return norm_layer(s, p, name + ".bn", in, true);
  };
  Features<T> h = norm("prep", conv("prep", {images, s.side, 3}, s.width));
  const int64_t widths[] = {2 * s.width, 6 * s.width, 8 * s.width};
  for (int block = 1; block <= 3; ++block) {
    const std::string name = "block" + std::to_string(block);
    const int64_t width = widths[block - 1];
    h = norm(name + ".0", pooled(s, conv(name + ".0", h, width), 2));
    h = norm(name + ".1", conv(name + ".1", h, width));
  }
  return loss_of_features(s, p, pooled(s, h, std::min<int64_t>(4, h.side)), labels);
}

}  // namespace ct::reference
