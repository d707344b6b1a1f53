#include "graph/graph.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/dropout_key.h"

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
                         Init init) {
  if (!explicit_unit_ && (units_.empty() || units_.back() != layer)) units_.push_back(layer);
  Shape stored{layout.stored};
  if (shape.size() == 2) stored = {shape[0], shape[1]};
  if (shape.size() == 3) stored = {shape[0], shape[1], shape[2]};
  Parameter p{.name = suffix.empty() ? layer : layer + "." + suffix,
              .shape = std::move(shape),
              .layout = std::move(layout),
              .init = init,
              .unit = static_cast<int>(units_.size()) - 1};
  p.frozen = is_frozen(p.name);
  p.value = add_value({.name = p.name,
                       .shape = stored,
                       .dtype = p.is_vector() ? DType::f32 : compute_,
                       .space = MemorySpace::resident,
                       .category = MemoryCategory::weights});
  parameters_.push_back(std::move(p));
  return parameters_.back().value;
}

ValueId Graph::statistic(const std::string& layer, const std::string& suffix, int64_t channels, double start) {
  const ValueId value = parameter(layer, suffix, {channels}, Layout::vector(channels), {Init::constant, start});
  parameters_.back().statistic = true;
  parameters_.back().frozen = is_frozen(layer + ".weight") && is_frozen(layer + ".bias");
  parameters_.back().momentum = 0.1;
  return value;
}

ValueId Graph::convolution_weight(const std::string& layer, int64_t out, int64_t in, int64_t kernel, Init init) {
  return parameter(layer, "weight", {out, in, kernel, kernel}, Layout::convolution(out, in, kernel), init);
}

int64_t Graph::parameter_count() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.statistic ? 0 : p.layout.numel();
  return n;
}

int64_t Graph::learnt_count() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.learns() ? p.layout.numel() : 0;
  return n;
}

/// Values that lie side by side, each on a cache line of its own, as views of one.
static ValueId add_block(Graph& g, const char* name, MemorySpace space, std::vector<std::pair<ValueId*, Value>> parts) {
  constexpr int64_t kLine = 64;
  int64_t bytes = 0;
  for (auto& [port, value] : parts) {
    value.offset = bytes;
    bytes += round_up(value.shape.stored() * static_cast<int64_t>(size_of(value.dtype)), kLine);
  }
  const ValueId block = g.add_value({.name = name, .shape = {bytes}, .dtype = DType::u8, .space = space});
  for (auto& [port, value] : parts) {
    value.base = block;
    *port = g.add_value(value);
  }
  return block;
}

/// The levels that normalise to what is nearest to 0.
static std::vector<uint8_t> mean_levels(const InputSpec& in) {
  std::vector<uint8_t> levels;
  for (size_t c = 0; c < in.scale.size(); ++c)
    levels.push_back(static_cast<uint8_t>(std::clamp(std::nearbyint(-in.shift[c] / in.scale[c]), 0.0f, 255.0f)));
  return levels;
}

/// Does a linear layer make it that may write f32 whatever it computes in?
static bool is_linear(const Graph& g, ValueId x) {
  return std::ranges::any_of(g.ops(), [x](const ComputeOp& op) {
    const Linear* linear = std::get_if<Linear>(&op);
    return linear && linear->y == x && is_fused(linear->activation);
  });
}

Graph build_graph(const Builder& model, const InputSpec& in) {
  Graph g(in.compute, in.mode, in.frozen, in.relu_bits);
  const Shape images{in.batch, in.channels, in.height, in.width};
  Ports& ports = g.ports;
  std::vector<std::pair<ValueId*, Value>> inputs;
  if (in.resident_images > 0) {
    ports.images = g.add_value({.name = "training images",
                                .shape = {in.resident_images, in.channels, in.height, in.width},
                                .dtype = DType::u8,
                                .space = MemorySpace::resident,
                                .category = MemoryCategory::images});
    inputs.push_back({&ports.index, {.name = "index", .shape = {in.batch}, .dtype = DType::i32}});
  } else {
    inputs.push_back({&ports.images, {.name = "images", .shape = images, .dtype = DType::u8}});
  }
  inputs.push_back({&ports.draws, {.name = "draws", .shape = {in.batch * 4}, .dtype = DType::i32}});
  inputs.push_back({&ports.labels, {.name = "labels", .shape = {in.batch}, .dtype = DType::i32}});
  inputs.push_back({&ports.dropout_key, {.name = "dropout key", .shape = {sizeof(DropoutKey)}, .dtype = DType::u8}});
  if (in.edits > 0)
    inputs.push_back({&ports.edits, {.name = "edits", .shape = {in.batch * in.edits * 8}, .dtype = DType::i32}});
  if (in.mixes_labels) {
    inputs.push_back({&ports.second_labels, {.name = "second labels", .shape = {in.batch}, .dtype = DType::i32}});
    inputs.push_back({&ports.second_shares, {.name = "second shares", .shape = {in.batch}}});
  }
  if (in.weights_classes) inputs.push_back({&ports.class_weights, {.name = "class weights", .shape = {in.classes}}});
  // The row of the next micro-batch is there while others use the arena: engine/feed.h.
  const MemorySpace space = in.resident_images > 0 ? MemorySpace::resident : MemorySpace::input;
  ports.inputs = add_block(g, "inputs", space, std::move(inputs));
  ValueId edited = ports.images, index = ports.index;
  for (int i = 0; i < in.edits; ++i) {
    const ValueId before = edited;
    edited = g.add_value({.name = "edited " + std::to_string(i), .shape = images, .dtype = DType::u8});
    g.add_op(Edit{before, index, ports.edits, edited, i, in.edits, mean_levels(in)});
    index = kNone;
  }
  g.augmented = g.add_value({.name = "augmented", .shape = images, .dtype = in.compute});
  g.add_op(Augment{edited, index, ports.draws, g.augmented, in.scale, in.shift});

  const ValueId logits = model(g, g.augmented, in.classes);
  check(g.shape(logits) == Shape({in.batch, in.classes}), "the model's logits have shape ", to_string(g.shape(logits)));
  check(in.compute == DType::f32 || is_linear(g, logits), "logits in 16 bits that no plain linear layer makes");
  g.keep_f32(logits);
  ports.outputs = add_block(g, "outputs", MemorySpace::output,
                            {{&ports.losses, {.name = "losses", .shape = {in.batch}}},
                             {&ports.predicted, {.name = "predicted", .shape = {in.batch}, .dtype = DType::i32}},
                             {&ports.label_rank, {.name = "label_rank", .shape = {in.batch}, .dtype = DType::i32}}});
  const bool train = in.mode == Mode::train;
  const ValueId dlogits = train ? g.add_value({.name = "d logits", .shape = g.shape(logits)}) : kNone;
  g.add_op(SoftmaxCrossEntropy{logits, ports.labels, ports.losses, ports.predicted, ports.label_rank, dlogits,
                               in.label_smoothing, /*loss_scale=*/kNone, ports.second_labels, ports.second_shares,
                               ports.class_weights});
  if (train) differentiate(g, logits, dlogits);
  return g;
}

}  // namespace ct
