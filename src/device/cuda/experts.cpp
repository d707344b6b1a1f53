#include "kernels/experts.h"

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
}  // namespace

std::unique_ptr<Kernel> prepare(const Route& op, const Context& in) {
  const k::RouteArgs args{
      .shape = route_shape(in.shape(op.logits), op.capacity, op.top_k), .sampled = op.sampled, .number = op.number};
  return one_launch(in, k::route, op, args, k::route_workspace_bytes(args.shape));
}

std::unique_ptr<Kernel> prepare(const RouteGrad& op, const Context& in) {
  return one_launch(in, k::route_grad, op,
                    {.shape = route_shape(in.shape(op.logits), op.capacity, op.top_k),
                     .balance_coefficient = op.balance_coefficient / op.predivide});
}

std::unique_ptr<Kernel> prepare(const Dispatch& op, const Context& in) {
  return one_launch(in, k::dispatch, op, {.shape = experts_shape(in, op.x, op.to, op.top_k)});
}

std::unique_ptr<Kernel> prepare(const Combine& op, const Context& in) {
  return one_launch(in, k::combine, op, {.shape = experts_shape(in, op.y, op.from, op.top_k)});
}

std::unique_ptr<Kernel> prepare(const CombineGradWeights& op, const Context& in) {
  return one_launch(in, k::combine_grad_weights, op, {.shape = experts_shape(in, op.dy, op.from, op.top_k)});
}

std::unique_ptr<Kernel> prepare(const Jitter& op, const Context& in) {
  return one_launch(in, k::jitter, op,
                    {.type = type_of(in.dtype(op.x)), .n = in.shape(op.x).stored(), .number = op.number});
}

std::unique_ptr<Kernel> prepare(const SoftmaxMix& op, const Context& in) {
  return one_launch(in, k::softmax_mix, op,
                    {.type = type_of(in.dtype(op.y)),
                     .rows = in.shape(op.y)[0],
                     .stride = in.shape(op.y).stride(),
                     .score_stride = in.shape(op.scores).stride()});
}

std::unique_ptr<Kernel> prepare(const SoftmaxMixGrad& op, const Context& in) {
  return one_launch(in, k::softmax_mix_grad, op,
                    {.type = type_of(in.dtype(op.dy)),
                     .rows = in.shape(op.dy)[0],
                     .stride = in.shape(op.dy).stride(),
                     .score_stride = in.shape(op.scores).stride()});
}

}  // namespace ct::cuda
