// Scalar reference of residual networks, by name of parameter.
#pragma once

#include "reference/named_parameters.h"
#include "selftest/reference/batch_norm.h"
#include "selftest/reference/conv.h"
#include "selftest/reference/dense.h"

namespace ct::reference {

struct Resnet {
  int64_t n, side, width, classes;
  std::vector<int> blocks;
  bool bottlenecks = false;
  bool large_stem = false;
};

template <class T>
struct Features {
  std::vector<T> x;
  int64_t side, channels;
};

template <class T>
Features<T> plain_conv(const Resnet& s, const NamedParameters<T>& p, const std::string& name, const Features<T>& in,
                       int64_t width, int64_t kernel, int64_t stride) {
  const Conv conv{s.n, in.channels, in.side, in.side, width, kernel, stride, kernel / 2};
  const auto w = to_channels_last(p.at(name + ".weight"), width, in.channels, kernel * kernel);
  return {conv2d(conv, in.x, w, {}), conv.out_height(), width};
}

/// Normalises by the statistics of the batch itself.
template <class T>
Features<T> norm_layer(const Resnet& s, const NamedParameters<T>& p, const std::string& name, Features<T> in, bool relu,
                       const std::vector<T>& residual = {}) {
  const Norm norm{s.n * in.side * in.side, in.channels};
  in.x = batch_norm(norm, in.x, channel_means(norm, in.x), channel_variances(norm, in.x), p.at(name + ".weight"),
                    p.at(name + ".bias"), residual, relu);
  return in;
}

/// A convolution and what comes before the first block, 3x3 or, of large images, 7x7 of stride 2 and a pooling.
template <class T>
Features<T> stem(const Resnet& s, const NamedParameters<T>& p, const std::vector<T>& images) {
  const Features<T> in{images, s.side, 3};
  Features<T> h = norm_layer(
      s, p, "bn1",
      s.large_stem ? plain_conv(s, p, "conv1", in, s.width, 7, 2) : plain_conv(s, p, "conv1", in, s.width, 3, 1), true);
  if (!s.large_stem) return h;
  const Pool pool{s.n, h.side, h.side, h.channels, /*kernel=*/3, /*stride=*/2, /*pad=*/1};
  std::vector<uint8_t> places;
  return {max_pool(pool, h.x, places), pool.out_height(), h.channels};
}

/// The mean loss of what the last layer, fc, makes of the features' means over each image.
template <class T>
T loss_of_features(const Resnet& s, const NamedParameters<T>& p, const Features<T>& h, const std::vector<int>& labels) {
  const auto pooled = average_pool(s.n, h.side * h.side, h.channels, h.x);
  return mean_loss(linear(s.n, h.channels, s.classes, pooled, p.at("fc.weight"), p.at("fc.bias")), labels);
}

/// images [n][side][side][3], normalised; the mean loss.
template <class T>
T resnet_loss(const Resnet& s, const NamedParameters<T>& p, const std::vector<T>& images,
              const std::vector<int>& labels) {
  Features<T> h = stem(s, p, images);
  for (size_t layer = 0; layer < s.blocks.size(); ++layer)
    for (int block = 0; block < s.blocks[layer]; ++block) {
      const std::string name = "layer" + std::to_string(layer + 1) + "." + std::to_string(block) + ".";
      const int64_t width = s.width << layer, stride = layer > 0 && block == 0 ? 2 : 1;
      const int64_t out = s.bottlenecks ? 4 * width : width;
      Features<T> skip = h;
      if (s.bottlenecks) {
        h = norm_layer(s, p, name + "bn1", plain_conv(s, p, name + "conv1", h, width, 1, 1), true);
        h = norm_layer(s, p, name + "bn2", plain_conv(s, p, name + "conv2", h, width, 3, stride), true);
        h = plain_conv(s, p, name + "conv3", h, out, 1, 1);
      } else {
        h = norm_layer(s, p, name + "bn1", plain_conv(s, p, name + "conv1", h, width, 3, stride), true);
        h = plain_conv(s, p, name + "conv2", h, width, 3, 1);
      }
      if (stride != 1 || skip.channels != out)
        skip = norm_layer(s, p, name + "downsample.1", plain_conv(s, p, name + "downsample.0", skip, out, 1, stride),
                          false);
      h = norm_layer(s, p, name + (s.bottlenecks ? "bn3" : "bn2"), h, true, skip.x);
    }
  return loss_of_features(s, p, h, labels);
}

}  // namespace ct::reference
