#include "model/models.h"

namespace ct {
namespace {
ValueId head(Graph& g, ValueId h, int classes) {
  h = g.flatten(h);
  h = g.linear(h, "fc1", 120, {.activation = Activation::relu});
  h = g.linear(h, "fc2", 84, {.activation = Activation::relu});
  return g.linear(h, "fc3", classes);
}
}  // namespace

ValueId cnn(Graph& g, ValueId images, int classes) {
  ValueId h = g.conv_relu_pool(images, "conv1", 6, 5);
  h = g.conv_relu_pool(h, "conv2", 16, 5);
  return head(g, h, classes);
}

ValueId cnn_plain(Graph& g, ValueId images, int classes) {
  ValueId h = g.max_pool(g.relu(g.conv2d(images, "conv1", 6, 5)), 2);
  h = g.max_pool(g.relu(g.conv2d(h, "conv2", 16, 5)), 2);
  return head(g, h, classes);
}

}  // namespace ct
