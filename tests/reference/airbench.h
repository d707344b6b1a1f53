// Scalar reference of airbench (src/model/airbench.h), by name of parameter.
#pragma once

#include "reference/resnet9.h"
#include "selftest/reference/gelu.h"

namespace ct::reference {

/// images [n][side][side][3], normalised; the mean loss.
template <class T>
T airbench_loss(const Resnet& s, const NamedParameters<T>& p, const std::vector<T>& images,
                const std::vector<int>& labels) {
  const Conv whiten{s.n, 3, s.side, s.side, /*out_channels=*/24, /*kernel=*/2, /*stride=*/1, /*pad=*/0};
  const auto filters = to_channels_last(p.at("whiten.weight"), 24, 3, 4);
  Features<T> h{gelu(conv2d(whiten, images, filters, p.at("whiten.bias"))), whiten.out_height(), 24};
  for (int group = 1; group <= 3; ++group) {
    const std::string name = "layers." + std::to_string(group);
    const int64_t width = group == 1 ? s.width : 4 * s.width;
    const auto conv = [&](const char* layer) { return plain_conv(s, p, name + layer, h, width, 3, 1); };
    const auto norm = [&](const char* layer, const Features<T>& in) {
      Features<T> y = norm_layer(s, p, name + layer, in, /*relu=*/false);
      y.x = gelu(y.x);
      return y;
    };
    h = norm(".norm1", pooled(s, conv(".conv1"), 2));
    h = norm(".norm2", conv(".conv2"));
  }
  h = pooled(s, h, std::min<int64_t>(3, h.side));
  const auto features = average_pool(s.n, h.side * h.side, h.channels, h.x);
  const std::vector<T> no_bias(static_cast<size_t>(s.classes));
  return mean_loss(linear(s.n, h.channels, s.classes, features, p.at("head.weight"), no_bias), labels);
}

}  // namespace ct::reference
