// The graph that a model writes: values, operations in order, parameters. Builder functions infer shapes and name
// parameters as PyTorch's state_dict does; differentiate() (graph/autodiff.h) appends the backward operations.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/layout.h"
#include "graph/ops.h"
#include "tensor/tensor.h"

namespace ct {

/// Where a value lives. input and output belong to the host's side of a step and keep their memory throughout;
/// transient values share an arena by live range; resident ones outlive the step.
enum class Home : uint8_t { input, output, transient, resident };

struct Value {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  Home home = Home::transient;
  ValueId base = kNone;  // a view: `offset` elements into that value
  int64_t offset = 0;
};

struct Parameter {
  std::string name;            // PyTorch's, e.g. "conv1.weight"
  std::vector<int64_t> shape;  // PyTorch's
  Layout layout;
  double init_bound = 0;  // drawn from U(-bound, bound)
  ValueId value = kNone;
  ValueId grad = kNone;  // set by differentiate()
  int unit = 0;
  bool is_vector() const { return shape.size() <= 1; }
};

enum class Activation : uint8_t { none, relu };

/// What a program takes in and gives back each micro-batch.
struct Ports {
  ValueId images = kNone, draws = kNone, labels = kNone;      // u8 [N][C][H][W], i32 [N][4], i32 [N]
  ValueId losses = kNone, predicted = kNone, larger = kNone;  // see SoftmaxCrossEntropy
};

class Graph {
 public:
  ValueId add_value(Value value);
  void add_op(ComputeOp op) { ops_.push_back(std::move(op)); }

  // Layers. `name` is the state_dict prefix; a layer outside any unit is a unit of its own.
  ValueId conv_relu_pool(ValueId x, const std::string& name, int width, int kernel);
  ValueId conv2d(ValueId x, const std::string& name, int width, int kernel, int stride = 1, int pad = 0);
  ValueId relu(ValueId x);
  ValueId max_pool(ValueId x, int size);
  ValueId add(ValueId a, ValueId b);
  /// [N][H][W][C] -> [N][H*W*C]; a following linear() stores its columns in that order.
  ValueId flatten(ValueId x);
  ValueId linear(ValueId x, const std::string& name, int width, Activation activation = Activation::none);
  /// Starts a unit: the parameters from here to the next begin_unit() are gathered and reduced together.
  void begin_unit(const std::string& name);

  const std::vector<Value>& values() const { return values_; }
  const Value& operator[](ValueId id) const { return values_[static_cast<size_t>(id)]; }
  const std::vector<ComputeOp>& ops() const { return ops_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<std::string>& units() const { return units_; }
  int64_t parameter_count() const;

  Ports ports;
  bool planar(ValueId x) const { return x == images_f32; }
  ValueId images_f32 = kNone;  // the augmented, normalised images: planar

 private:
  ValueId parameter(const std::string& layer, const std::string& suffix, std::vector<int64_t> shape, Layout layout,
                    double init_bound);
  struct Image {
    int64_t batch, height, width, channels;
  };
  Image image(ValueId x) const;

  std::vector<Value> values_;
  std::vector<ComputeOp> ops_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> units_;
  bool explicit_unit_ = false;
};

/// A model is a function from images to logits [N][classes].
using Builder = std::function<ValueId(Graph&, ValueId images, int classes)>;

enum class Mode : uint8_t { train, evaluate };

struct InputSpec {
  int64_t batch = 0, channels = 3, height = 32, width = 32;
  int classes = 10;
  std::vector<float> scale, shift;  // a channel: u8 * scale + shift
  float label_smoothing = 0;
  Mode mode = Mode::train;
};

/// Input ops, the model, the loss and, for training, the backward pass.
Graph build_graph(const Builder& model, const InputSpec& input);

}  // namespace ct
