#include "graph/autodiff.h"

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

class Backward {
 public:
  Backward(Graph& g, ValueId result, ValueId seed) : g_(g), grad_(g.values().size(), kNone), wanted_(grad_.size()) {
    for (const Parameter& p : g.parameters()) wanted_[index(p.value)] = !p.frozen;
    for (const ComputeOp& op : g.ops()) {
      bool any = false;
      for (ValueId v : reads(op)) any = any || wanted_[index(v)];
      for (ValueId v : writes(op)) wanted_[index(v)] = any;
    }
    grad_[index(result)] = seed;
  }

  void run() {
    const std::vector<ComputeOp> forward = g_.ops();
    for (size_t i = forward.size(); i-- > 0;)
      if (wanted(writes(forward[i]))) std::visit([this](const auto& op) { rule(op); }, forward[i]);
    for (Parameter& p : g_.parameters()) {
      p.grad = p.frozen ? kNone : grad_[index(p.value)];
      check(p.grad != kNone || !p.learns(), "parameter ", p.name, " does not reach the loss");
    }
  }

 private:
  // One rule an operation. dy is the gradient of its result; contribute() names where a gradient of an operand goes.
  void rule(const Linear& op) {
    const ValueId dy = grad_of_sums(op);
    if (wanted(present({op.w, op.b}))) {
      const ValueId dw = parameter_grad(op.w), db = bias_grad(op.b);
      g_.add_op(LinearGradW{op.x, dy, dw, db});
    }
    contribute(op.x, [&](ValueId dx) { g_.add_op(LinearGradX{op.w, dy, dx}); });
  }
  void rule(const ConvReluPool& op) {
    const ValueId dy = grad(op.y);
    if (wanted({op.w, op.b})) {
      const ValueId dw = parameter_grad(op.w), db = parameter_grad(op.b);
      g_.add_op(ConvReluPoolGradW{op.x, dy, op.argmax, dw, db, op.kernel, op.planar});
    }
    contribute(op.x, [&](ValueId dx) { g_.add_op(ConvReluPoolGradX{op.w, dy, op.argmax, dx, op.kernel}); });
  }
  void rule(const Conv2d& op) {
    const ValueId dy = grad(op.y);
    if (wanted(present({op.w, op.b}))) {
      const ValueId dw = parameter_grad(op.w), db = bias_grad(op.b);
      g_.add_op(Conv2dGradW{op.x, dy, dw, db, op.kernel, op.stride, op.pad, op.planar});
    }
    contribute(op.x, [&](ValueId dx) { g_.add_op(Conv2dGradX{op.w, dy, dx, op.kernel, op.stride, op.pad}); });
  }
  void rule(const MaxPool& op) {
    contribute(op.x, [&](ValueId dx) {
      g_.add_op(MaxPoolGrad{grad(op.y), op.argmax, dx, op.kernel, op.stride, op.pad});
    });
  }
  void rule(const AveragePool& op) {
    contribute(op.x, [&](ValueId dx) { g_.add_op(AveragePoolGrad{grad(op.y), dx}); });
  }
  void rule(const BatchNorm& op) {
    const ValueId dy = grad(op.y), dx = fresh(op.x);
    const bool residual = op.residual != kNone && wanted_[index(op.residual)];
    const ValueId dresidual = residual && op.relu ? fresh(op.residual) : kNone;
    const bool frozen = op.mean == kNone;
    const auto of_parameter = [&](ValueId parameter) { return frozen ? kNone : parameter_grad(parameter); };
    g_.add_op(BatchNormGrad{.x = frozen ? kNone : op.x,
                            .y = op.relu ? op.y : kNone,
                            .mask = op.mask,
                            .dy = dy,
                            .w = op.w,
                            .b = op.relu && op.residual == kNone && !frozen ? op.b : kNone,
                            .mean = frozen ? op.running_mean : op.mean,
                            .var = frozen ? op.running_var : op.var,
                            .dx = dx,
                            .dresidual = dresidual,
                            .dw = of_parameter(op.w),
                            .db = of_parameter(op.b),
                            .batch_mean = of_parameter(op.running_mean),
                            .batch_var = of_parameter(op.running_var),
                            .eps = op.eps});
    give(op.x, dx);
    if (residual) give(op.residual, op.relu ? dresidual : dy);
  }
  /// What reaches x (or the sum) by its later uses is all that the operations before this one know of it, and is added
  /// in the same pass.
  void rule(const LayerNorm& op) {
    const ValueId x = op.sum == kNone ? op.x : op.sum, dsum = grad_[index(x)];
    const ValueId dx = wanted_[index(op.x)] || (op.residual != kNone && wanted_[index(op.residual)]) ? fresh(x) : kNone;
    g_.add_op(LayerNormGrad{.x = x,
                            .dy = grad(op.y),
                            .dsum = dx == kNone ? kNone : dsum,
                            .w = op.w,
                            .mean = op.mean,
                            .rstd = op.rstd,
                            .dx = dx,
                            .dw = parameter_grad(op.w),
                            .db = parameter_grad(op.b)});
    grad_[index(x)] = dx;
    if (op.sum == kNone) return;
    give(op.x, dx);
    give(op.residual, dx);
  }
  void rule(const Activate& op) {
    const ValueId x = is_fused(op.activation) ? op.y : op.x;
    contribute(op.x, [&](ValueId dx) { g_.add_op(ActivationGrad{op.activation, x, grad(op.y), dx}); });
  }
  void rule(const TreeGelu& op) {
    contribute(op.x, [&](ValueId dx) { g_.add_op(TreeGeluGrad{op.x, grad(op.y), dx, op.trees}); });
  }
  void rule(const Flatten& op) {
    contribute(op.x, [&](ValueId dx) { g_.add_op(FlattenGrad{grad(op.y), dx}); });
  }
  void rule(const Tokens& op) {
    const ValueId dx = fresh(op.x);
    g_.add_op(TokensGrad{.dy = grad(op.y),
                         .dx = dx,
                         .dclass_token = op.class_token == kNone ? kNone : parameter_grad(op.class_token),
                         .dpositions = parameter_grad(op.positions)});
    give(op.x, dx);
  }
  void rule(const TakeToken& op) {
    contribute(op.x, [&](ValueId dx) { g_.add_op(TakeTokenGrad{grad(op.y), dx}); });
  }
  void rule(const Attention& op) {
    const ValueId dtemperature = op.temperature == kNone ? kNone : parameter_grad(op.temperature);
    const ValueId dqkv = fresh(op.qkv);
    g_.add_op(AttentionGrad{.qkv = op.qkv,
                            .temperature = op.temperature,
                            .log_sum_exp = op.log_sum_exp,
                            .dy = grad(op.y),
                            .dqkv = dqkv,
                            .dtemperature = dtemperature,
                            .heads = op.heads,
                            .scale = op.scale,
                            .mask_diagonal = op.mask_diagonal});
    give(op.qkv, dqkv);
  }
  void rule(const SequencePool& op) {
    const ValueId dx = fresh(op.x), dscore = fresh(op.score);
    g_.add_op(SequencePoolGrad{op.x, op.score, grad(op.y), dx, dscore});
    give(op.x, dx);
    give(op.score, dscore);
  }
  void rule(const Dropout& op) {
    contribute(op.x, [&](ValueId dx) { g_.add_op(Dropout{grad(op.y), op.key, dx, op.p, op.number}); });
  }
  void rule(const Route& op) {
    contribute(op.logits, [&](ValueId dlogits) {
      g_.add_op(RouteGrad{.logits = op.logits,
                          .slots = op.slots,
                          .load = op.load,
                          .dweights = grad(op.weights),
                          .dlogits = dlogits,
                          .capacity = op.capacity,
                          .top_k = op.top_k,
                          .balance_coefficient = op.balance_coefficient});
    });
  }
  void rule(const Dispatch& op) {
    contribute(op.x, [&](ValueId dx) {
      Ids from;
      for (const ValueId to : op.to) from.push_back(grad(to));
      g_.add_op(Combine{std::move(from), routing(op.sources).slots, /*weights=*/kNone, dx, op.top_k});
    });
  }
  void rule(const Combine& op) {
    const ValueId dy = grad(op.y), dweights = fresh(op.weights);
    g_.add_op(CombineGradWeights{op.from, op.slots, dy, dweights, op.top_k});
    give(op.weights, dweights);
    Ids to;
    for (const ValueId from : op.from) to.push_back(fresh(from));
    g_.add_op(Dispatch{dy, routing(op.slots).sources, op.weights, to, op.top_k});
    for (size_t e = 0; e < to.size(); ++e) give(op.from[e], to[e]);
  }
  void rule(const Jitter& op) {
    contribute(op.x, [&](ValueId dx) { g_.add_op(Jitter{grad(op.y), op.key, dx, op.number}); });
  }
  void rule(const SoftmaxMix& op) {
    const ValueId da = fresh(op.a), db = fresh(op.b), dscores = fresh(op.scores);
    g_.add_op(SoftmaxMixGrad{op.a, op.b, op.scores, grad(op.y), da, db, dscores});
    give(op.a, da);
    give(op.b, db);
    give(op.scores, dscores);
  }
  void rule(const Add& op) {  // the same gradient goes both ways, without a copy
    give(op.a, grad(op.y));
    give(op.b, grad(op.y));
  }
  /// A loss writes its own gradient, and nothing lies behind an input. The others are made here or later.
  template <class Op>
  requires(Op::kFacts.role != Role::layer) void rule(const Op&) {}

  /// The routing that wrote these slots or sources.
  const Route& routing(ValueId written) const {
    for (const ComputeOp& op : g_.ops())
      if (const auto* route = std::get_if<Route>(&op);
          route != nullptr && (route->slots == written || route->sources == written))
        return *route;
    fail(ExitCode::bug, "no routing wrote ", g_[written].name);
  }

  /// The gradient of a linear layer's sums, before its activation.
  ValueId grad_of_sums(const Linear& op) {
    const ValueId dy = grad(op.y);
    if (op.activation == Activation::none) return dy;
    const ValueId dz = fresh(op.y);
    g_.add_op(ActivationGrad{op.activation, is_fused(op.activation) ? op.y : op.before, dy, dz});
    return dz;
  }

  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  /// Of any of them.
  bool wanted(const Ids& ids) const {
    return std::ranges::any_of(ids, [this](ValueId id) { return wanted_[index(id)]; });
  }
  ValueId grad(ValueId y) const {
    check(grad_[index(y)] != kNone, "value ", g_[y].name, " does not reach the loss");
    return grad_[index(y)];
  }
  ValueId fresh(ValueId x) {
    return g_.add_value({.name = "d " + g_[x].name, .shape = g_[x].shape, .dtype = g_[x].dtype});
  }
  /// Where an operation writes the gradients of several parameters, that of a frozen one is a scratch value.
  ValueId parameter_grad(ValueId parameter) {
    if (!wanted_[index(parameter)])
      return g_.add_value({.name = "d " + g_[parameter].name, .shape = g_[parameter].shape});
    check(grad_[index(parameter)] == kNone, "parameter ", g_[parameter].name, " is used twice");
    return grad_[index(parameter)] = g_.add_value({.name = "d " + g_[parameter].name,
                                                   .shape = g_[parameter].shape,
                                                   .space = MemorySpace::resident,
                                                   .category = MemoryCategory::gradients});
  }
  ValueId bias_grad(ValueId bias) { return bias == kNone || !wanted_[index(bias)] ? kNone : parameter_grad(bias); }
  template <class Emit>
  void contribute(ValueId x, Emit emit) {
    if (!wanted_[index(x)]) return;
    const ValueId dx = fresh(x);
    emit(dx);
    give(x, dx);
  }
  void give(ValueId x, ValueId dx) {
    if (!wanted_[index(x)]) return;
    ValueId& sum = grad_[index(x)];
    if (sum == kNone) {
      sum = dx;
      return;
    }
    const ValueId total = fresh(x);
    g_.add_op(Add{sum, dx, total});
    sum = total;
  }

  Graph& g_;
  std::vector<ValueId> grad_;  // by forward value
  std::vector<bool> wanted_;   // does a parameter lie behind it?
};

}  // namespace

void differentiate(Graph& g, ValueId result, ValueId seed) { Backward(g, result, seed).run(); }

}  // namespace ct
