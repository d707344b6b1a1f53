#include "graph/graph.h"

#include <cmath>

#include "base/error.h"
#include "graph/autodiff.h"

namespace ct {

ValueId Graph::add_value(Value value) {
  values_.push_back(std::move(value));
  return static_cast<ValueId>(values_.size() - 1);
}

void Graph::begin_unit(const std::string& name) {
  units_.push_back(name);
  explicit_unit_ = true;
}

ValueId Graph::parameter(const std::string& layer, const std::string& suffix, std::vector<int64_t> shape, Layout layout,
                         double init_bound) {
  if (!explicit_unit_ && (units_.empty() || units_.back() != layer)) units_.push_back(layer);
  Shape stored = shape.size() == 2 ? Shape{shape[0], shape[1]} : Shape{layout.stored};
  Parameter p{.name = layer + "." + suffix,
              .shape = std::move(shape),
              .layout = std::move(layout),
              .init_bound = init_bound,
              .unit = static_cast<int>(units_.size()) - 1};
  p.value = add_value({.name = p.name, .shape = stored, .home = Home::resident});
  parameters_.push_back(std::move(p));
  return parameters_.back().value;
}

Graph::Image Graph::image(ValueId x) const {
  const Shape& s = (*this)[x].shape;
  check(s.rank() == 4, "an image operation on ", (*this)[x].name, " of shape ", to_string(s));
  return planar(x) ? Image{s[0], s[2], s[3], s[1]} : Image{s[0], s[1], s[2], s[3]};
}

ValueId Graph::conv_relu_pool(ValueId x, const std::string& name, int width, int kernel) {
  const auto [batch, height, wide, channels] = image(x);
  const int64_t out_h = (height - kernel + 1) / 2, out_w = (wide - kernel + 1) / 2;
  const double bound = 1 / std::sqrt(static_cast<double>(channels * kernel * kernel));
  const ValueId w =
      parameter(name, "weight", {width, channels, kernel, kernel}, Layout::convolution(width, channels, kernel), bound);
  const ValueId b = parameter(name, "bias", {width}, Layout::vector(width), bound);
  const Shape shape{batch, out_h, out_w, width};
  const ValueId y = add_value({.name = name + ".out", .shape = shape});
  const ValueId winner = add_value({.name = name + ".winner", .shape = shape, .dtype = DType::u8});
  add_op(ConvReluPool{x, w, b, y, winner, kernel, planar(x)});
  return y;
}

ValueId Graph::conv2d(ValueId x, const std::string& name, int width, int kernel, int stride, int pad) {
  const auto [batch, height, wide, channels] = image(x);
  const double bound = 1 / std::sqrt(static_cast<double>(channels * kernel * kernel));
  const ValueId w =
      parameter(name, "weight", {width, channels, kernel, kernel}, Layout::convolution(width, channels, kernel), bound);
  const ValueId b = parameter(name, "bias", {width}, Layout::vector(width), bound);
  const Shape shape{batch, (height + 2 * pad - kernel) / stride + 1, (wide + 2 * pad - kernel) / stride + 1, width};
  const ValueId y = add_value({.name = name + ".out", .shape = shape});
  add_op(Conv2d{x, w, b, y, kernel, stride, pad, planar(x)});
  return y;
}

ValueId Graph::relu(ValueId x) {
  const ValueId y = add_value({.name = (*this)[x].name + ".relu", .shape = (*this)[x].shape});
  add_op(Relu{x, y});
  return y;
}

ValueId Graph::max_pool(ValueId x, int size) {
  const auto [batch, height, width, channels] = image(x);
  const Shape shape{batch, height / size, width / size, channels};
  const ValueId y = add_value({.name = (*this)[x].name + ".pool", .shape = shape});
  const ValueId winner = add_value({.name = (*this)[x].name + ".winner", .shape = shape, .dtype = DType::u8});
  add_op(MaxPool{x, y, winner, size});
  return y;
}

ValueId Graph::add(ValueId a, ValueId b) {
  check((*this)[a].shape == (*this)[b].shape, "adding ", (*this)[a].name, " and ", (*this)[b].name);
  const ValueId y = add_value({.name = (*this)[a].name + ".sum", .shape = (*this)[a].shape});
  add_op(Add{a, b, y});
  return y;
}

ValueId Graph::flatten(ValueId x) {
  const Shape& s = (*this)[x].shape;
  const ValueId y = add_value({.name = (*this)[x].name + ".flat", .shape = {s[0], s.numel() / s[0]}});
  add_op(Flatten{x, y});
  return y;
}

ValueId Graph::linear(ValueId x, const std::string& name, int width, Activation activation) {
  const Shape shape = (*this)[x].shape;
  check(shape.rank() == 2, "linear layer ", name, " on shape ", to_string(shape));
  Layout layout = Layout::matrix(width, shape[1]);
  for (const ComputeOp& op : ops_)
    if (const Flatten* flat = std::get_if<Flatten>(&op); flat && flat->y == x && !planar(flat->x)) {
      const auto [batch, height, wide, channels] = image(flat->x);
      layout = Layout::matrix_of_flattened(width, channels, height, wide);
    }
  const double bound = 1 / std::sqrt(static_cast<double>(shape[1]));
  const ValueId w = parameter(name, "weight", {width, shape[1]}, layout, bound);
  const ValueId b = parameter(name, "bias", {width}, Layout::vector(width), bound);
  const ValueId y = add_value({.name = name + ".out", .shape = {shape[0], width}});
  add_op(Linear{x, w, b, y, activation == Activation::relu});
  return y;
}

int64_t Graph::parameter_count() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.layout.numel();
  return n;
}

Graph build_graph(const Builder& model, const InputSpec& in) {
  Graph g;
  const Shape images{in.batch, in.channels, in.height, in.width};
  g.ports.images = g.add_value({.name = "images", .shape = images, .dtype = DType::u8, .home = Home::input});
  g.ports.draws = g.add_value({.name = "draws", .shape = {in.batch * 4}, .dtype = DType::i32, .home = Home::input});
  g.ports.labels = g.add_value({.name = "labels", .shape = {in.batch}, .dtype = DType::i32, .home = Home::input});
  g.images_f32 = g.add_value({.name = "augmented", .shape = images});
  g.add_op(Augment{g.ports.images, g.ports.draws, g.images_f32, in.scale, in.shift});

  const ValueId logits = model(g, g.images_f32, in.classes);
  check(g[logits].shape == Shape({in.batch, in.classes}), "the model's logits have shape ", to_string(g[logits].shape));
  const auto output = [&](const char* name, DType dtype) {
    return g.add_value({.name = name, .shape = {in.batch}, .dtype = dtype, .home = Home::output});
  };
  g.ports.losses = output("losses", DType::f32);
  g.ports.predicted = output("predicted", DType::i32);
  g.ports.larger = output("larger", DType::i32);
  const bool train = in.mode == Mode::train;
  const ValueId dlogits = train ? g.add_value({.name = "d logits", .shape = g[logits].shape}) : kNone;
  g.add_op(SoftmaxCrossEntropy{logits, g.ports.labels, g.ports.losses, g.ports.predicted, g.ports.larger, dlogits,
                               in.label_smoothing});
  if (train) differentiate(g, logits, dlogits);
  return g;
}

}  // namespace ct
