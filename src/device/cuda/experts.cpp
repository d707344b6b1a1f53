#include "kernels/experts.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "device/cuda/one_launch.h"
#include "graph/routing_draws.h"
#include "kernels/routing.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

k::RouteShape route_shape(const Shape& logits, int64_t capacity, int top_k) {
  return {.rows = logits[0], .experts = logits[1], .stride = logits.stride(), .capacity = capacity, .top_k = top_k};
}
/// Of `rows`, and of what one of the experts has.
k::ExpertsShape experts_shape(const Context& in, ValueId rows, const Ids& experts, int top_k) {
  return {.type = type_of(in.dtype(rows)),
          .rows = in.shape(rows)[0],
          .stride = in.shape(rows).stride(),
          .experts = static_cast<int64_t>(experts.size()),
          .capacity = in.shape(experts.front())[0],
          .top_k = top_k};
}
template <class Pointer>
void take(const Operands& at, const Ids& ids, Pointer (&to)[kMostExperts]) {
  for (size_t e = 0; e < ids.size(); ++e) to[e] = at.at(ids[e]);
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Route& op, const Context& in) {
  const k::RouteArgs args{
      .shape = route_shape(in.shape(op.logits), op.capacity, op.top_k), .sampled = op.sampled, .number = op.number};
  const auto bind = [op, args, stream = in.stream()](const Operands& at, std::byte* workspace) {
    k::RouteArgs a = args;
    a.logits = at.f32(op.logits);
    a.key = at.at<const DropoutKey>(op.key);
    a.slots = at.i32(op.slots);
    a.sources = at.i32(op.sources);
    a.weights = at.f32(op.weights);
    a.load = at.f32(op.load);
    a.balance = at.f32(op.balance);
    a.workspace = workspace;
    return [a, stream] { CT_CUDA(k::route(a, stream)); };
  };
  return std::make_unique<CudaKernel<decltype(bind)>>(in.label(), k::route_workspace_bytes(args.shape), bind);
}

std::unique_ptr<Kernel> prepare(const RouteGrad& op, const Context& in) {
  return one_launch(in, k::route_grad,
                    k::RouteGradArgs{.shape = route_shape(in.shape(op.logits), op.capacity, op.top_k),
                                     .balance_coefficient = op.balance_coefficient / op.predivide},
                    [op](const Operands& at, k::RouteGradArgs& a) {
                      a.logits = at.f32(op.logits);
                      a.slots = at.i32(op.slots);
                      a.load = at.f32(op.load);
                      a.dweights = at.f32(op.dweights);
                      a.loss_scale = at.at<const double>(op.loss_scale);  // the first member of LossScaleState
                      a.dlogits = at.f32(op.dlogits);
                    });
}

std::unique_ptr<Kernel> prepare(const Dispatch& op, const Context& in) {
  return one_launch(in, k::dispatch, k::DispatchArgs{.shape = experts_shape(in, op.x, op.to, op.top_k)},
                    [op](const Operands& at, k::DispatchArgs& a) {
                      a.x = at.at(op.x);
                      a.sources = at.i32(op.sources);
                      a.weights = at.f32(op.weights);
                      take(at, op.to, a.to);
                    });
}

std::unique_ptr<Kernel> prepare(const Combine& op, const Context& in) {
  return one_launch(in, k::combine, k::CombineArgs{.shape = experts_shape(in, op.y, op.from, op.top_k)},
                    [op](const Operands& at, k::CombineArgs& a) {
                      take(at, op.from, a.from);
                      a.slots = at.i32(op.slots);
                      a.weights = at.f32(op.weights);
                      a.y = at.at(op.y);
                    });
}

std::unique_ptr<Kernel> prepare(const CombineGradWeights& op, const Context& in) {
  return one_launch(in, k::combine_grad_weights,
                    k::CombineGradWeightsArgs{.shape = experts_shape(in, op.dy, op.from, op.top_k)},
                    [op](const Operands& at, k::CombineGradWeightsArgs& a) {
                      take(at, op.from, a.from);
                      a.slots = at.i32(op.slots);
                      a.dy = at.at(op.dy);
                      a.dweights = at.f32(op.dweights);
                    });
}

std::unique_ptr<Kernel> prepare(const Jitter& op, const Context& in) {
  return one_launch(in, k::jitter,
                    k::JitterArgs{.type = type_of(in.dtype(op.x)), .n = in.shape(op.x).stored(), .number = op.number},
                    [op](const Operands& at, k::JitterArgs& a) {
                      a.key = at.at<const DropoutKey>(op.key);
                      a.x = at.at(op.x);
                      a.y = at.at(op.y);
                    });
}

std::unique_ptr<Kernel> prepare(const SoftmaxMix& op, const Context& in) {
  return one_launch(in, k::softmax_mix,
                    k::SoftmaxMixArgs{.type = type_of(in.dtype(op.y)),
                                      .rows = in.shape(op.y)[0],
                                      .stride = in.shape(op.y).stride(),
                                      .score_stride = in.shape(op.scores).stride()},
                    [op](const Operands& at, k::SoftmaxMixArgs& a) {
                      a.a = at.at(op.a);
                      a.b = at.at(op.b);
                      a.scores = at.f32(op.scores);
                      a.y = at.at(op.y);
                    });
}

std::unique_ptr<Kernel> prepare(const SoftmaxMixGrad& op, const Context& in) {
  return one_launch(in, k::softmax_mix_grad,
                    k::SoftmaxMixGradArgs{.type = type_of(in.dtype(op.dy)),
                                          .rows = in.shape(op.dy)[0],
                                          .stride = in.shape(op.dy).stride(),
                                          .score_stride = in.shape(op.scores).stride()},
                    [op](const Operands& at, k::SoftmaxMixGradArgs& a) {
                      a.a = at.at(op.a);
                      a.b = at.at(op.b);
                      a.scores = at.f32(op.scores);
                      a.dy = at.at(op.dy);
                      a.da = at.at(op.da);
                      a.db = at.at(op.db);
                      a.dscores = at.f32(op.dscores);
                    });
}

}  // namespace ct::cuda
