#include "experts.h"

#include "bench.h"

namespace ct::kernels {

/// Four experts of which each image takes one: many images of a narrow network, and what chooses for 4,096 images.
void Bench::mixtures_of_experts() {
  constexpr int64_t kExperts = 4, kScoreStride = 16, kStride = 1024;
  const std::vector<DropoutKey> keys(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    const int64_t e = size_of(type), capacity = shrunk(kLarge / e / kStride / 16), rows = kExperts * capacity;
    const int64_t n = rows * kStride;
    const std::string shape = shape_of(rows, kStride);
    const ExpertsShape s{type, rows, kStride, kExperts, capacity, 1};
    std::vector<int32_t> places(static_cast<size_t>(rows));  // each row's own
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int32_t>(i);
    const auto experts = [&](auto& pointers) {
      for (int64_t i = 0; i < kExperts; ++i) pointers[i] = arena_.take(type, capacity * kStride);
    };

    DispatchArgs there{.shape = s,
                       .x = arena_.take(type, n),
                       .sources = arena_.of(places),
                       .weights = arena_.zeros<float>(rows),
                       .to = {}};
    experts(there.to);
    large("dispatch", name_of(type), shape, 2 * n * e, 0, [=](cudaStream_t t) { return dispatch(there, t); });
    CombineArgs back{.shape = s,
                     .from = {},
                     .slots = arena_.of(places),
                     .weights = arena_.zeros<float>(rows),
                     .y = arena_.take(type, n)};
    experts(back.from);
    large("combine", name_of(type), shape, 2 * n * e, 0, [=](cudaStream_t t) { return combine(back, t); });
    CombineGradWeightsArgs grad{.shape = s,
                                .from = {},
                                .slots = arena_.of(places),
                                .dy = arena_.take(type, n),
                                .dweights = arena_.take<float>(rows)};
    experts(grad.from);
    large("combine_grad_weights", name_of(type), shape, 2 * n * e, 0,
          [=](cudaStream_t t) { return combine_grad_weights(grad, t); });

    const JitterArgs shaken{.type = type,
                            .n = n,
                            .key = arena_.of(keys),
                            .number = 0,
                            .x = arena_.take(type, n),
                            .y = arena_.take(type, n)};
    large("jitter", name_of(type), shape, 2 * n * e, 0, [=](cudaStream_t t) { return jitter(shaken, t); });

    const SoftmaxMixArgs mixed{.type = type,
                               .rows = rows,
                               .stride = kStride,
                               .score_stride = kScoreStride,
                               .a = arena_.take(type, n),
                               .b = arena_.take(type, n),
                               .scores = arena_.zeros<float>(rows * kScoreStride),
                               .y = arena_.take(type, n)};
    large("softmax_mix", name_of(type), shape, 3 * n * e, 0, [=](cudaStream_t t) { return softmax_mix(mixed, t); });
    const SoftmaxMixGradArgs mixed_grad{.type = type,
                                        .rows = rows,
                                        .stride = kStride,
                                        .score_stride = kScoreStride,
                                        .a = arena_.take(type, n),
                                        .b = arena_.take(type, n),
                                        .scores = arena_.zeros<float>(rows * kScoreStride),
                                        .dy = arena_.take(type, n),
                                        .da = arena_.take(type, n),
                                        .db = arena_.take(type, n),
                                        .dscores = arena_.take<float>(rows * kScoreStride)};
    large("softmax_mix_grad", name_of(type), shape, 5 * n * e, 0,
          [=](cudaStream_t t) { return softmax_mix_grad(mixed_grad, t); });
  }

  const RouteShape s{.rows = 4096, .experts = kExperts, .stride = kScoreStride, .capacity = 1024, .top_k = 1};
  const std::string shape = shape_of(s.rows, s.experts);
  const RouteArgs forward{.shape = s,
                          .sampled = true,
                          .number = 0,
                          .logits = arena_.zeros<float>(s.rows * s.stride),
                          .key = arena_.of(keys),
                          .slots = arena_.take<int32_t>(s.rows),
                          .sources = arena_.take<int32_t>(s.experts * s.capacity),
                          .weights = arena_.take<float>(s.rows),
                          .load = arena_.take<float>(s.experts),
                          .balance = arena_.take<float>(1),
                          .workspace = arena_.take<std::byte>(static_cast<int64_t>(route_workspace_bytes(s)))};
  small("route", "f32", shape, [=](cudaStream_t t) { return route(forward, t); });
  const RouteGradArgs backward{.shape = s,
                               .logits = arena_.zeros<float>(s.rows * s.stride),
                               .slots = arena_.zeros<int32_t>(s.rows),
                               .load = arena_.zeros<float>(s.experts),
                               .dweights = arena_.zeros<float>(s.rows),
                               .balance_coefficient = 0.01,
                               .loss_scale = nullptr,
                               .dlogits = arena_.take<float>(s.rows * s.stride)};
  small("route_grad", "f32", shape, [=](cudaStream_t t) { return route_grad(backward, t); });
}

}  // namespace ct::kernels
