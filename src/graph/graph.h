// The graph that a model writes: values, operations in order, parameters. Builder functions infer shapes and name
// parameters as PyTorch's state_dict does; differentiate() (graph/autodiff.h) appends the backward operations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/layout.h"
#include "graph/ops.h"
#include "tensor/tensor.h"

namespace ct {

/// The memory of a value. input and output: written or read by the host, never shared with other values. transient: in
/// an arena, shared by live range. exchange: in a second arena, which other ranks can read. resident: kept between
/// steps. shared: resident, and readable by other ranks. host: resident in host memory, on every device.
enum class MemorySpace : uint8_t { input, output, transient, exchange, resident, shared, host };

/// The kinds of memory in reports. partial_sums: inner nodes of the tree sum of gradients. images: a training set in
/// the device's memory.
enum class MemoryCategory : uint8_t { activations, weights, gradients, partial_sums, optimizer, images, other };

struct Value {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  MemorySpace space = MemorySpace::transient;
  ValueId base = kNone;  // a view: `offset` bytes into that value
  int64_t offset = 0;
  MemoryCategory category = MemoryCategory::activations;
};

/// The initial values of a parameter: drawn from U(-spread, spread) or from a normal distribution with standard
/// deviation `spread`, or the constant `spread`.
struct Init {
  enum Kind : uint8_t { uniform, normal, constant } kind = uniform;
  double spread = 0;
  /// Of a convolution: initially output k equals input k, where both exist (Zagoruyko & Komodakis, 2017).
  bool dirac = false;
  /// Of a convolution of images: if there are training images, its initial filters whiten their patches
  /// (data/whitening.h).
  bool whitens = false;
};

/// A parameter, or a running statistic of batch normalisation. A statistic is stored, saved and hashed like a
/// parameter. Instead of a gradient it has each micro-batch's statistic, and the update moves it towards the mean of
/// these by its momentum.
struct Parameter {
  std::string name;            // PyTorch's, e.g. "conv1.weight"
  std::vector<int64_t> shape;  // PyTorch's
  Layout layout;
  Init init;
  ValueId value = kNone;
  ValueId grad = kNone;  // f32; set by differentiate()
  int unit = 0;
  bool statistic = false;
  bool frozen = false;  // training does not change it
  double momentum = 0;  // of a statistic
  int begins_as = -1;   // the parameter whose initial values it copies; -1: none
  bool is_vector() const { return shape.size() <= 1; }
  /// Does an optimizer update it?
  bool learns() const { return !statistic && !frozen; }
};

/// Does training leave the parameter of that name as it is? Empty: none. A batch norm whose weight and bias are both
/// frozen evaluates with its running statistics and leaves them unchanged.
using IsFrozen = std::function<bool(const std::string& name)>;

enum class Mode : uint8_t { train, evaluate };

struct ConvOptions {
  int stride = 1, pad = 0;
  bool bias = true;
  /// PyTorch's default, or He et al. (2015), "kaiming normal", by the number of outputs or of inputs.
  enum Start : uint8_t { torch_default, kaiming_fan_out, kaiming_fan_in } start = torch_default;
  bool dirac = false, whitens = false;  // of the weights, see Init
};

/// Learnable parts of a sequence of tokens, by their names in the state_dict.
struct TokensOptions {
  std::string class_token;  // [1][1][C], before all others; empty: none
  Init class_token_start = {Init::normal, 1};
  std::string positions;  // [1][T][C], added
  Init positions_start = {Init::normal, 1};
};

struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;
  /// The initialisation of weights and bias; absent: PyTorch's default, by the number of inputs.
  std::optional<Init> weight = {}, bias_start = {};
  /// An earlier layer whose initial values this one copies; empty: none.
  std::string begins_as = {};
  bool f32 = false;  // the results are f32 in any compute type; requires is_fused(activation)
};

struct LayerNormOptions {
  double eps = 1e-5;
};

/// A mixture of experts' gate (Route).
struct RouteOptions {
  int top_k = 1;         // experts of a row: 1 or 2
  int64_t capacity = 0;  // rows of an expert (graph/expert_capacity.h)
  bool sampled = false;  // in training, noise on the choice of one expert
  double balance_coefficient = 0;
};
/// The decision of a gate.
struct Routing {
  ValueId slots = kNone, sources = kNone, weights = kNone;
  int64_t experts = 0, capacity = 0;
  int top_k = 1;
};

struct PoolOptions {
  int stride = 0;  // 0: the kernel's size, so that windows do not overlap
  int pad = 0;     // at most half of the kernel
};

struct AttentionOptions {
  /// The name of a learnt scalar, whose exponential is the scale and is initially 1 / sqrt(width of a head); empty: the
  /// scale is this constant.
  std::string temperature_name = {};
  bool mask_diagonal = false;  // no token attends to itself
};

/// The inputs and outputs of a program for each micro-batch. Inputs and outputs are one block of bytes each, with views
/// into it, so that one copy transfers a block.
struct Ports {
  ValueId inputs = kNone, draws = kNone, labels = kNone;  // i32 [N][4], i32 [N]
  // u8 [N][C][H][W] in `inputs`; or resident, u8 [M][C][H][W], of which `index`, i32 [N], picks the micro-batch's.
  ValueId images = kNone, index = kNone;
  ValueId dropout_key = kNone;                                          // DropoutKey (graph/dropout_key.h)
  ValueId edits = kNone, second_labels = kNone, second_shares = kNone;  // see Edit, SoftmaxCrossEntropy; or kNone
  ValueId class_weights = kNone;                                        // f32 [classes]; or kNone
  ValueId outputs = kNone, losses = kNone, predicted = kNone, label_rank = kNone;  // see SoftmaxCrossEntropy
  Ids balances;  // in training, f32 [1] of each mixture of experts, see Route; not in the outputs' block
};

class Graph {
 public:
  explicit Graph(DType compute = DType::f32, Mode mode = Mode::train, IsFrozen frozen = {}, bool relu_bits = false)
      : compute_(compute), mode_(mode), frozen_(std::move(frozen)), relu_bits_(relu_bits) {}

  ValueId add_value(Value value);
  void add_op(ComputeOp op) {
    ops_.push_back(std::move(op));
    units_of_ops_.push_back(static_cast<int>(units_.size()) - 1);
  }

  // Layers. `name` is the state_dict prefix; each layer outside all units is a separate unit.
  ValueId conv_relu_pool(ValueId x, const std::string& name, int width, int kernel);
  ValueId conv2d(ValueId x, const std::string& name, int width, int kernel, const ConvOptions& options = {});
  /// activation(batchnorm(x) + residual), residual kNone: none; PyTorch's eps 1e-5 and momentum 0.1. The weight is
  /// initially `scale`. In training, Error(usage) if a channel has a single value.
  ValueId batchnorm(ValueId x, const std::string& name, Activation activation = Activation::none,
                    ValueId residual = kNone, double scale = 1);
  /// Over the last dimension of [rows][features] or [N][T][C]; weight and bias are initially 1 and 0.
  ValueId layer_norm(ValueId x, const std::string& name, const LayerNormOptions& options = {});
  /// layer_norm() of sum = x + residual; the sum is the residual of the next branch.
  struct SumAndNorm {
    ValueId sum, y;
  };
  SumAndNorm add_layer_norm(ValueId x, ValueId residual, const std::string& name, const LayerNormOptions& options = {});
  ValueId activate(ValueId x, Activation activation);
  ValueId relu(ValueId x) { return activate(x, Activation::relu); }
  ValueId max_pool(ValueId x, int kernel, const PoolOptions& options = {});
  /// [N][H][W][C] -> [N][C]
  ValueId average_pool(ValueId x);
  ValueId add(ValueId a, ValueId b);
  /// Patches of the images as tokens: [N][C][H][W] -> [N][T][patch*patch*C], or 5*C with shifted copies. The patch
  /// divides height and width.
  ValueId patches(ValueId images, int64_t patch, int64_t shift = 0);
  /// [N][T][C] or [N][H][W][C] -> [N][T][C]; T is greater by 1 with a class token.
  ValueId tokens(ValueId x, const TokensOptions& options);
  /// Token 0: [N][T][C] -> [N][C]
  ValueId take_token(ValueId x);
  /// [N][H][W][C] -> [N][H*W*C]; a following linear() stores its columns in that order.
  ValueId flatten(ValueId x);
  /// [..][in] -> [..][width], of rank 2 or 3.
  ValueId linear(ValueId x, const std::string& name, int64_t width, const LinearOptions& options = {});
  /// A fast feedforward layer, [..][in] -> [..][width]: `linear_in` to the units of the trees, GELU at those that a row
  /// visits, and `linear_out` of these units, without a bias. Training computes all units, evaluation the visited ones.
  ValueId fast_feed_forward(ValueId x, const std::string& name, int64_t width, const FffTrees& trees);
  /// Attention of tokens [N][T][3*heads*D] (queries, keys, values) to each other: [N][T][heads*D].
  ValueId attention(ValueId qkv, int heads, const AttentionOptions& options = {});
  /// The mean of tokens x [N][T][C], weighted by the softmax of their scores [N][T][1]: [N][C].
  ValueId sequence_pool(ValueId x, ValueId score);
  /// Zero with probability p, else x / (1 - p); in evaluation, and if p is 0, x itself.
  ValueId dropout(ValueId x, double p);
  /// Assigns rows to experts by logits [T][experts] in f32; evaluation draws nothing.
  Routing route(ValueId logits, const RouteOptions& options);
  /// Rows x [T][C] for each expert: [capacity][C].
  Ids dispatch(ValueId x, const Routing& routing);
  /// The experts' results, weighted and in the order of the rows: [T][C].
  ValueId combine(const Ids& from, const Routing& routing);
  /// x times a random factor of 1 +- 0.01; in evaluation x itself.
  ValueId jitter(ValueId x);
  /// The mean of rows a and b, weighted by the softmax of their scores [T][2] in f32.
  ValueId softmax_mix(ValueId a, ValueId b, ValueId scores);
  /// Starts a unit: the parameters from here to the next begin_unit() are gathered and reduced together.
  void begin_unit(const std::string& name);

  const std::vector<Value>& values() const { return values_; }
  const Value& operator[](ValueId id) const { return values_[static_cast<size_t>(id)]; }
  const std::vector<ComputeOp>& ops() const { return ops_; }
  /// The unit of each operation of the forward pass; -1: it precedes all units.
  const std::vector<int>& units_of_ops() const { return units_of_ops_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<std::string>& units() const { return units_; }
  /// The number of elements of parameters, without pads and running statistics; and of those that learn.
  int64_t parameter_count() const;
  int64_t learnt_count() const;
  const Shape& shape(ValueId id) const { return (*this)[id].shape; }
  /// Element type of activations and of weights of rank 2 and more.
  DType compute() const { return compute_; }
  Mode mode() const { return mode_; }

  Ports ports;
  bool planar(ValueId x) const { return x == augmented; }
  ValueId augmented = kNone;  // the augmented, normalised images: planar
  /// Makes the operation that writes `x` write f32.
  void keep_f32(ValueId x) { values_[static_cast<size_t>(x)].dtype = DType::f32; }

 private:
  ValueId activation(std::string name, const Shape& shape, DType dtype) {
    return add_value({.name = std::move(name), .shape = shape, .dtype = dtype});
  }
  ValueId activation(std::string name, const Shape& shape) { return activation(std::move(name), shape, compute_); }
  ValueId parameter(const std::string& layer, const std::string& suffix, std::vector<int64_t> shape, Layout layout,
                    Init init);
  struct LinearParameters {
    ValueId w, b;
  };
  LinearParameters linear_parameters(const std::string& name, const Layout& layout, int64_t width, int64_t terms,
                                     const LinearOptions& options);
  /// The number of the next operation that draws by graph/routing_draws.h.
  int routing_number() const;
  SumAndNorm normalised(ValueId x, ValueId residual, const std::string& name, const LayerNormOptions& options);
  ValueId statistic(const std::string& layer, const std::string& suffix, int64_t channels, double start);
  ValueId convolution_weight(const std::string& layer, int64_t out, int64_t in, int64_t kernel, Init init);
  struct Image {
    int64_t batch, height, width, channels;
  };
  Image image(ValueId x) const;

  bool is_frozen(const std::string& name) const { return frozen_ && frozen_(name); }

  DType compute_;
  Mode mode_;
  IsFrozen frozen_;
  bool relu_bits_;
  std::vector<Value> values_;
  std::vector<ComputeOp> ops_;
  std::vector<int> units_of_ops_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> units_;
  bool explicit_unit_ = false;
};

/// A model is a function from images to logits [N][classes].
using Builder = std::function<ValueId(Graph&, ValueId images, int classes)>;

struct InputSpec {
  int64_t batch = 0, channels = 3, height = 32, width = 32;
  int classes = 10;
  std::vector<float> scale, shift;  // a channel: u8 * scale + shift
  float label_smoothing = 0;
  int64_t resident_images = 0;  // images of a set in the device's memory; 0: each micro-batch brings its own
  int edits = 0;                // of each image, before it is augmented
  bool mixes_labels = false;    // an image may have a second label
  bool weights_classes = false;
  Mode mode = Mode::train;
  DType compute = DType::f32;  // or bf16, f16
  IsFrozen frozen = {};
  bool relu_bits = false;  // where a ReLU behind a sum of 16 bits passed is kept as a bit, beside the result
};

/// Input ops, the model, the loss and, for training, the backward pass.
Graph build_graph(const Builder& model, const InputSpec& input);

}  // namespace ct
