// The builder functions of Graph: a layer each, with what it demands of its operands' shapes.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/dropout_key.h"
#include "graph/graph.h"
#include "graph/routing_draws.h"

namespace ct {
namespace {
/// PyTorch's default for a layer whose outputs are sums of `terms` products.
Init by_terms(int64_t terms) { return {Init::uniform, 1 / std::sqrt(static_cast<double>(terms))}; }
}  // namespace

Graph::Image Graph::image(ValueId x) const {
  const Shape& s = shape(x);
  check(s.rank() == 4, "an image operation on ", (*this)[x].name, " of shape ", to_string(s));
  return planar(x) ? Image{s[0], s[2], s[3], s[1]} : Image{s[0], s[1], s[2], s[3]};
}

ValueId Graph::conv_relu_pool(ValueId x, const std::string& name, int width, int kernel) {
  const auto [batch, height, wide, channels] = image(x);
  const int64_t out_h = (height - kernel + 1) / 2, out_w = (wide - kernel + 1) / 2;
  const Init init = by_terms(channels * kernel * kernel);
  const ValueId w = convolution_weight(name, width, channels, kernel, init);
  const ValueId b = parameter(name, "bias", {width}, Layout::vector(width), init);
  const Shape shape{batch, out_h, out_w, width};
  const ValueId y = activation(name + ".out", shape);
  const ValueId argmax = activation(name + ".argmax", shape, DType::u8);
  add_op(ConvReluPool{x, w, b, y, argmax, kernel, planar(x)});
  return y;
}

ValueId Graph::conv2d(ValueId x, const std::string& name, int width, int kernel, const ConvOptions& o) {
  const auto [batch, height, wide, channels] = image(x);
  const Init standard = by_terms(channels * kernel * kernel);
  const int64_t fan = (o.start == ConvOptions::kaiming_fan_out ? width : channels) * kernel * kernel;
  const Init kaiming{Init::normal, std::sqrt(2.0 / static_cast<double>(fan))};
  Init start = o.start == ConvOptions::torch_default ? standard : kaiming;
  start.dirac = o.dirac;
  start.whitens = o.whitens;
  const ValueId w = convolution_weight(name, width, channels, kernel, start);
  const ValueId b = o.bias ? parameter(name, "bias", {width}, Layout::vector(width), standard) : kNone;
  const auto size = [&](int64_t in) { return (in + 2 * o.pad - kernel) / o.stride + 1; };
  const ValueId y = activation(name + ".out", {batch, size(height), size(wide), width});
  add_op(Conv2d{x, w, b, y, kernel, o.stride, o.pad, planar(x)});
  return y;
}

ValueId Graph::batchnorm(ValueId x, const std::string& name, Activation activate, ValueId residual, double scale) {
  const int64_t channels = shape(x)[shape(x).rank() - 1];
  check(is_fused(activate), "batch norm ", name, " knows no activation but ReLU");
  check(residual == kNone || shape(residual) == shape(x), "the residual of ", name);
  check(shape(x).rank() == 4 || shape(x).stride() == channels, "batch norm ", name, " of rows that are padded");
  const bool of_batch = mode_ == Mode::train && !(is_frozen(name + ".weight") && is_frozen(name + ".bias"));
  if (of_batch && shape(x).numel() == channels)
    fail(ExitCode::usage, "batch norm ", name,
         " has one value a channel, because the micro-batch is 1 image of 1x1 pixels here: a single value has no "
         "variance; raise train_micro_batch_size_per_gpu, or take larger images or a network that shrinks them less");
  const Layout vector = Layout::vector(channels);
  BatchNorm op{.x = x, .residual = residual, .eps = 1e-5, .relu = activate == Activation::relu};
  op.w = parameter(name, "weight", {channels}, vector, {Init::constant, scale});
  op.b = parameter(name, "bias", {channels}, vector, {Init::constant, 0});
  op.running_mean = statistic(name, "running_mean", channels, 0);
  op.running_var = statistic(name, "running_var", channels, 1);
  op.y = activation(name + ".out", shape(x));
  op.mean = of_batch ? activation(name + ".mean", {channels}, DType::f32) : kNone;
  op.var = of_batch ? activation(name + ".var", {channels}, DType::f32) : kNone;
  // Without a sum the gradient computes the result again, which costs no memory traffic at all.
  if (relu_bits_ && of_batch && op.relu && residual != kNone && size_of(compute_) == 2 && channels % 8 == 0)
    op.mask = activation(name + ".mask", {shape(x).numel() / 8}, DType::u8);
  add_op(op);
  return op.y;
}

Graph::SumAndNorm Graph::normalised(ValueId x, ValueId residual, const std::string& name, const LayerNormOptions& o) {
  const Shape& s = shape(x);
  check(s.rank() == 2 || s.rank() == 3, "layer norm ", name, " of shape ", to_string(s));
  check(residual == kNone || shape(residual) == s, "the residual of ", name);
  const int64_t columns = s.columns(), rows = s.rows();
  const Layout vector = Layout::vector(columns);
  LayerNorm op{.x = x, .residual = residual, .sum = kNone, .eps = o.eps};
  op.w = parameter(name, "weight", {columns}, vector, {Init::constant, 1});
  op.b = parameter(name, "bias", {columns}, vector, {Init::constant, 0});
  if (residual != kNone) op.sum = activation(name + ".sum", shape(x));
  op.y = activation(name + ".out", shape(x));
  const bool train = mode_ == Mode::train;
  op.mean = train ? activation(name + ".mean", {rows}, DType::f32) : kNone;
  op.rstd = train ? activation(name + ".rstd", {rows}, DType::f32) : kNone;
  add_op(op);
  return {op.sum, op.y};
}

ValueId Graph::layer_norm(ValueId x, const std::string& name, const LayerNormOptions& options) {
  return normalised(x, kNone, name, options).y;
}

Graph::SumAndNorm Graph::add_layer_norm(ValueId x, ValueId residual, const std::string& name,
                                        const LayerNormOptions& options) {
  return normalised(x, residual, name, options);
}

ValueId Graph::activate(ValueId x, Activation kind) {
  check(!planar(x), "an activation of planar images");
  const ValueId y = activation((*this)[x].name + "." + std::string(names_of(kind).forward), shape(x));
  add_op(Activate{kind, x, y});
  return y;
}

ValueId Graph::max_pool(ValueId x, int kernel, const PoolOptions& o) {
  check(!planar(x), "max_pool of planar images");
  const auto [batch, height, width, channels] = image(x);
  const int stride = o.stride > 0 ? o.stride : kernel;
  check(kernel <= 15 && 2 * o.pad <= kernel && std::min(height, width) + 2 * o.pad >= kernel, "windows of ", kernel,
        " with a pad of ", o.pad, " on ", (*this)[x].name, " of shape ", to_string(shape(x)));
  const auto size = [&](int64_t in) { return (in + 2 * o.pad - kernel) / stride + 1; };
  const Shape shape{batch, size(height), size(width), channels};
  const ValueId y = activation((*this)[x].name + ".pool", shape);
  const ValueId argmax = activation((*this)[x].name + ".argmax", shape, DType::u8);
  add_op(MaxPool{x, y, argmax, kernel, stride, o.pad});
  return y;
}

ValueId Graph::average_pool(ValueId x) {
  check(!planar(x), "average_pool of planar images");
  const auto [batch, height, width, channels] = image(x);
  const ValueId y = activation((*this)[x].name + ".pool", {batch, channels});
  add_op(AveragePool{x, y});
  return y;
}

ValueId Graph::add(ValueId a, ValueId b) {
  check(shape(a) == shape(b), "adding ", (*this)[a].name, " and ", (*this)[b].name);
  const ValueId y = activation((*this)[a].name + ".sum", shape(a));
  add_op(Add{a, b, y});
  return y;
}

ValueId Graph::patches(ValueId images, int64_t patch, int64_t shift) {
  check(planar(images), "patches need an image, not ", (*this)[images].name);
  const auto [batch, height, width, channels] = image(images);
  check(patch > 0 && height % patch == 0 && width % patch == 0, "patches of ", patch, " on images of ",
        to_string(shape(images)));
  const int64_t copies = shift > 0 ? 5 : 1;
  const ValueId y = activation("patches", {batch, height / patch * (width / patch), copies * channels * patch * patch});
  add_op(Patches{images, y, static_cast<int>(patch), static_cast<int>(shift)});
  return y;
}

ValueId Graph::tokens(ValueId x, const TokensOptions& o) {
  check(!planar(x) && (shape(x).rank() == 3 || shape(x).rank() == 4), "tokens of ", (*this)[x].name, " of shape ",
        to_string(shape(x)));
  const int64_t batch = shape(x)[0], width = shape(x).columns(), own = o.class_token.empty() ? 0 : 1;
  const int64_t count = shape(x).rows() / batch + own;
  Tokens op{.x = x, .class_token = kNone};
  if (own > 0)
    op.class_token = parameter(o.class_token, "", {1, 1, width}, Layout::tokens(1, 1, width), o.class_token_start);
  op.positions = parameter(o.positions, "", {1, count, width}, Layout::tokens(1, count, width), o.positions_start);
  op.y = activation("tokens", {batch, count, width});
  add_op(op);
  return op.y;
}

ValueId Graph::take_token(ValueId x) {
  const Shape& s = shape(x);
  check(s.rank() == 3, "a token of ", (*this)[x].name, " of shape ", to_string(s));
  const ValueId y = activation((*this)[x].name + ".token", {s[0], s[2]});
  add_op(TakeToken{x, y});
  return y;
}

ValueId Graph::flatten(ValueId x) {
  const Shape& s = shape(x);
  check(s.rank() == 4 || s.stride() == s.columns(), "flattening rows that are padded: ", (*this)[x].name, " of shape ",
        to_string(s));
  const ValueId y = activation((*this)[x].name + ".flat", {s[0], s.numel() / s[0]});
  add_op(Flatten{x, y});
  return y;
}

Graph::LinearParameters Graph::linear_parameters(const std::string& name, const Layout& layout, int64_t width,
                                                 int64_t terms, const LinearOptions& o) {
  const Init start = by_terms(terms);
  const auto add = [&](const char* suffix, const std::vector<int64_t>& dims, const Layout& stored, const Init& init) {
    const ValueId value = parameter(name, suffix, dims, stored, init);
    if (o.begins_as.empty()) return value;
    const auto first = std::ranges::find(parameters_, o.begins_as + "." + suffix, &Parameter::name);
    check(first->value != value && first->shape == dims, "parameter ", name, ".", suffix, " begins as none before it");
    parameters_.back().begins_as = static_cast<int>(first - parameters_.begin());
    return value;
  };
  const ValueId w = add("weight", {width, terms}, layout, o.weight.value_or(start));
  return {w, o.bias ? add("bias", {width}, Layout::vector(width), o.bias_start.value_or(start)) : kNone};
}

ValueId Graph::linear(ValueId x, const std::string& name, int64_t width, const LinearOptions& o) {
  const Shape in = shape(x);
  check(in.rank() == 2 || in.rank() == 3, "linear layer ", name, " on shape ", to_string(in));
  const int64_t terms = in.columns();
  Layout layout = Layout::matrix(width, terms);
  for (const ComputeOp& op : ops_)
    if (const Flatten* flat = std::get_if<Flatten>(&op);
        flat && flat->y == x && shape(flat->x).rank() == 4 && !planar(flat->x)) {
      const auto [batch, height, wide, channels] = image(flat->x);
      layout = Layout::matrix_of_flattened(width, channels, height, wide);
    }
  const auto [w, b] = linear_parameters(name, layout, width, terms, o);
  Shape out = in;
  out[in.rank() - 1] = width;
  const bool keep = mode_ == Mode::train && !is_fused(o.activation);
  const ValueId before = keep ? activation(name + ".before", out) : kNone;
  check(!o.f32 || is_fused(o.activation), "an activation that is a pass of its own, in f32, behind ", name);
  const ValueId y = activation(name + ".out", out, o.f32 ? DType::f32 : compute_);
  add_op(Linear{x, w, b, y, o.activation, before});
  return y;
}

/// The second product's weights begin by the number of its terms that count.
ValueId Graph::fast_feed_forward(ValueId x, const std::string& name, int64_t width, const FffTrees& trees) {
  const Shape in = shape(x);
  check(in.rank() == 2 || in.rank() == 3, "fast feedforward layer ", name, " on shape ", to_string(in));
  check(trees.width() <= kMostFffUnits && trees.visited() <= kMostFffVisited, "fast feedforward layer ", name, " of ",
        trees.width(), " units");
  const LinearOptions last{
      .bias = false,
      .weight = Init{Init::uniform, 1 / std::sqrt(static_cast<double>(trees.count * (trees.depth + 1)))}};
  if (mode_ == Mode::train) {
    const ValueId sums = linear(x, name + ".linear_in", trees.width());
    const ValueId visited = activation(name + ".visited", shape(sums));
    add_op(TreeGelu{sums, visited, trees});
    return linear(visited, name + ".linear_out", width, last);
  }
  const int64_t units = trees.width(), terms = in.columns();
  const auto [w_in, b_in] = linear_parameters(name + ".linear_in", Layout::matrix(units, terms), units, terms, {});
  const ValueId w_out = linear_parameters(name + ".linear_out", Layout::matrix(width, units), width, units, last).w;
  Shape out = in;
  out[in.rank() - 1] = width;
  const ValueId y = activation(name + ".out", out);
  add_op(Fff{x, w_in, b_in, w_out, y, trees});
  return y;
}

ValueId Graph::attention(ValueId qkv, int heads, const AttentionOptions& o) {
  const Shape in = shape(qkv);
  check(in.rank() == 3 && heads > 0 && in[2] % (3 * heads) == 0, "attention of ", heads, " heads on ",
        (*this)[qkv].name, " of shape ", to_string(in));
  check(in[1] > 1 || !o.mask_diagonal, "attention with mask_diagonal needs at least two tokens: ", (*this)[qkv].name);
  const int64_t width = in[2] / (3 * heads);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  ValueId temperature = kNone;
  if (!o.temperature_name.empty()) {
    const size_t dot = o.temperature_name.rfind('.');
    check(dot != std::string::npos, "the name of a temperature, ", o.temperature_name, ", says no layer");
    temperature = parameter(o.temperature_name.substr(0, dot), o.temperature_name.substr(dot + 1), /*shape=*/{},
                            Layout::vector(1), {Init::constant, std::log(scale)});
  }
  const ValueId y = activation((*this)[qkv].name + ".attention", {in[0], in[1], heads * width});
  const ValueId log_sum_exp = mode_ == Mode::train
                                  ? activation((*this)[qkv].name + ".log_sum_exp", {in[0] * heads * in[1]}, DType::f32)
                                  : kNone;
  add_op(Attention{qkv, temperature, y, log_sum_exp, heads, static_cast<float>(scale), o.mask_diagonal});
  return y;
}

ValueId Graph::sequence_pool(ValueId x, ValueId score) {
  const Shape s = shape(x);
  check(s.rank() == 3 && shape(score) == Shape({s[0], s[1], 1}), "scores of shape ", to_string(shape(score)), " for ",
        (*this)[x].name, " of shape ", to_string(s));
  const ValueId y = activation((*this)[x].name + ".pool", {s[0], s[2]});
  add_op(SequencePool{x, score, y});
  return y;
}

ValueId Graph::dropout(ValueId x, double p) {
  check(p >= 0 && p < 1, "dropout of ", (*this)[x].name, " with probability ", p);
  check(!planar(x), "dropout of planar images");
  if (mode_ == Mode::evaluate || p == 0) return x;
  const auto number =
      std::count_if(ops_.begin(), ops_.end(), [](const ComputeOp& op) { return std::holds_alternative<Dropout>(op); });
  const ValueId y = activation((*this)[x].name + ".dropout", shape(x), (*this)[x].dtype);
  add_op(Dropout{x, ports.dropout_key, y, p, static_cast<int>(number)});
  return y;
}

int Graph::routing_number() const {
  return static_cast<int>(std::ranges::count_if(ops_, [](const ComputeOp& op) {
    return std::holds_alternative<Route>(op) || std::holds_alternative<Jitter>(op);
  }));
}

Routing Graph::route(ValueId logits, const RouteOptions& o) {
  const Shape s = shape(logits);
  const std::string name = (*this)[logits].name;
  check(s.rank() == 2 && s[1] <= kMostExperts && (o.top_k == 1 || (o.top_k == 2 && s[1] > 1)), "routing by ", name,
        " of shape ", to_string(s), " to ", o.top_k, " of the experts");
  check(o.capacity > 0 && o.capacity <= s[0], "room for ", o.capacity, " rows by ", name);
  check((*this)[logits].dtype == DType::f32, "routing by ", name, ", which is not f32");
  const bool train = mode_ == Mode::train;
  const auto vector = [&](const char* what, int64_t n, DType dtype = DType::f32) {
    return activation(name + what, {n}, dtype);
  };
  Route op{.logits = logits,
           .key = train ? ports.dropout_key : kNone,
           .slots = vector(".slots", s[0] * o.top_k, DType::i32),
           .sources = vector(".sources", s[1] * o.capacity, DType::i32),
           .weights = vector(".weights", s[0] * o.top_k),
           .load = vector(".load", s[1]),
           .balance = kNone,
           .capacity = o.capacity,
           .top_k = o.top_k,
           .sampled = o.sampled && train,
           .balance_coefficient = o.balance_coefficient,
           .number = routing_number()};
  if (train) {
    op.balance = add_value({.name = name + ".balance", .shape = {1}, .space = MemorySpace::output});
    ports.balances.push_back(op.balance);
  }
  add_op(op);
  return {op.slots, op.sources, op.weights, s[1], o.capacity, o.top_k};
}

Ids Graph::dispatch(ValueId x, const Routing& r) {
  const Shape s = shape(x);
  check(s.rank() == 2 && s[0] * r.top_k == shape(r.slots)[0], "routing ", (*this)[x].name, " of shape ", to_string(s));
  Ids to;
  for (int64_t e = 0; e < r.experts; ++e)
    to.push_back(activation((*this)[x].name + ".expert" + std::to_string(e), {r.capacity, s[1]}));
  add_op(Dispatch{x, r.sources, /*weights=*/kNone, to, r.top_k});
  return to;
}

ValueId Graph::combine(const Ids& from, const Routing& r) {
  check(std::ssize(from) == r.experts, "results of ", from.size(), " experts of ", r.experts);
  const Shape s = shape(from.front());
  for (const ValueId id : from)
    check(shape(id) == s && s[0] == r.capacity, "experts' results of shape ", to_string(shape(id)));
  const ValueId y = activation((*this)[r.slots].name + ".combined", {shape(r.slots)[0] / r.top_k, s[1]});
  add_op(Combine{from, r.slots, r.weights, y, r.top_k});
  return y;
}

ValueId Graph::jitter(ValueId x) {
  check(!planar(x), "jitter of planar images");
  if (mode_ == Mode::evaluate) return x;
  const ValueId y = activation((*this)[x].name + ".jitter", shape(x), (*this)[x].dtype);
  add_op(Jitter{x, ports.dropout_key, y, routing_number()});
  return y;
}

ValueId Graph::softmax_mix(ValueId a, ValueId b, ValueId scores) {
  const Shape s = shape(a);
  check(s.rank() == 2 && shape(b) == s && shape(scores) == Shape({s[0], 2}) && (*this)[scores].dtype == DType::f32,
        "a mean of ", (*this)[a].name, " and ", (*this)[b].name, " by ", (*this)[scores].name);
  const ValueId y = activation((*this)[a].name + ".mix", s);
  add_op(SoftmaxMix{a, b, scores, y});
  return y;
}

}  // namespace ct
