// What launchers refuse: sizes, strides and types that make no sense. What is empty is no launch. Neither touches
// memory, so there is none.
#include <gtest/gtest.h>

#include <vector>

#include "attention.h"
#include "augment.h"
#include "batch_norm.h"
#include "bias.h"
#include "conv_relu_pool.h"
#include "copy.h"
#include "dropout.h"
#include "edit.h"
#include "elementwise.h"
#include "experts.h"
#include "fff.h"
#include "layer_norm.h"
#include "linear.h"
#include "optimizer.h"
#include "patches.h"
#include "pool.h"
#include "routing.h"
#include "sequence_pool.h"
#include "softmax_cross_entropy.h"
#include "tokens.h"
#include "tree_sum.h"

namespace ct::kernels {
namespace {

constexpr auto kNoType = static_cast<Type>(7);
constexpr int64_t kMany = int64_t{1} << 31, kFar = int64_t{1} << 40;

template <class Args>
using Launcher = cudaError_t (*)(const Args&, cudaStream_t);

/// What launchers say to `good` after each of the changes alone.
template <class Args, class... Changes>
void expect_all(cudaError_t expected, Launcher<Args> launcher, const Args& good, Changes... changes) {
  int number = 0;
  const auto expect = [&](auto change) {
    Args args = good;
    change(args);
    EXPECT_EQ(launcher(args, nullptr), expected) << "change " << ++number;
  };
  (expect(changes), ...);
}
template <class Args, class... Changes>
void expect_refused(Launcher<Args> launcher, const Args& good, Changes... changes) {
  expect_all(cudaErrorInvalidValue, launcher, good, changes...);
}
template <class Args, class... Changes>
void expect_done(Launcher<Args> launcher, const Args& good, Changes... changes) {
  expect_all(cudaSuccess, launcher, good, changes...);
}

TEST(Refused, Attention) {
  const auto check = [](auto launcher, auto good) {
    good.shape = {Type::f32, 1, 2, 1, 4, /*mask_diagonal=*/true, 12, 4};
    expect_refused(
        launcher, good, [](auto& a) { a.shape.type = kNoType; }, [](auto& a) { a.shape.n = -1; },
        [](auto& a) { a.shape.tokens = 0; }, [](auto& a) { a.shape.tokens = 1; }, [](auto& a) { a.shape.heads = 0; },
        [](auto& a) { a.shape.width = 513, a.shape.qkv_stride = a.shape.y_stride = 10000; },
        [](auto& a) { a.shape.qkv_stride = 11; }, [](auto& a) { a.shape.y_stride = 3; });
  };
  check(attention, AttentionArgs{});
  check(attention_grad, AttentionGradArgs{});
}

TEST(Refused, Augment) {
  const AugmentArgs good{.n = 1, .channels = 3, .height = 2, .width = 2, .stride = 4, .type = Type::f32, .count = 1};
  expect_refused(
      augment, good, [](auto& a) { a.n = -1; }, [](auto& a) { a.count = -1; }, [](auto& a) { a.channels = -1; },
      [](auto& a) { a.height = -1; }, [](auto& a) { a.width = -1; }, [](auto& a) { a.stride = 2; },
      [](auto& a) { a.channels = a.stride = kMaxAugmentChannels + 1; }, [](auto& a) { a.height = a.width = 1 << 20; },
      [](auto& a) { a.height = a.width = kFar; }, [](auto& a) { a.n = kMany; }, [](auto& a) { a.type = kNoType; });
  expect_done(
      augment, good, [](auto& a) { a.n = 0; }, [](auto& a) { a.height = 0; }, [](auto& a) { a.width = 0; },
      [](auto& a) { a.channels = a.stride = 0; });
}

TEST(Refused, BatchNorm) {
  const auto check = [](auto launcher, auto good) {
    good.shape = {2, 4, Type::f32};
    expect_refused(
        launcher, good, [](auto& a) { a.shape.rows = 0; }, [](auto& a) { a.shape.channels = 0; });
  };
  unsigned ticket = 0;
  check(batch_norm, BatchNormArgs{.tickets = &ticket});
  check(batch_norm_result, BatchNormArgs{});
  float dw = 0;
  check(batch_norm_grad, BatchNormGradArgs{.dw = &dw, .tickets = &ticket});
  expect_refused(batch_norm_grad, BatchNormGradArgs{.shape = {2, 4, Type::f32}, .dw = &dw, .tickets = &ticket},
                 [](auto& a) { a.tickets = nullptr; });
  uint8_t bits = 0;
  const BatchNormArgs with_bits{
      .shape = {2, 8, Type::bf16}, .relu = true, .residual = &bits, .mask = &bits, .tickets = &ticket};
  expect_refused(batch_norm, with_bits, [](auto& a) { a.tickets = nullptr; });
  expect_refused(
      batch_norm, with_bits, [](auto& a) { a.relu = false; }, [](auto& a) { a.residual = nullptr; },
      [](auto& a) { a.shape.channels = 4; }, [](auto& a) { a.shape.type = Type::f32; });
}

TEST(Refused, Bias) {
  const auto check = [](auto launcher, auto good) {
    good.type = Type::f32, good.rows = 1, good.channels = good.stride = 8;
    expect_refused(
        launcher, good, [](auto& a) { a.stride = 7; }, [](auto& a) { a.rows = -1; }, [](auto& a) { a.channels = -1; },
        [](auto& a) { a.type = kNoType; });
  };
  check(bias, BiasArgs{});
  check(bias_grad, BiasGradArgs{});
  expect_done(
      bias, BiasArgs{.type = Type::f32, .rows = 2, .channels = 8, .stride = 8}, [](auto& a) { a.rows = 0; },
      [](auto& a) { a.channels = a.stride = 0; });
}

TEST(Refused, ConvReluPool) {
  const auto check = [](auto launcher, auto good) {
    good.shape = {1, 1, 4, 4, 1, 3, /*planar=*/false, Type::f32};
    expect_refused(
        launcher, good, [](auto& a) { a.shape.n = -1; }, [](auto& a) { a.shape.in_channels = 0; },
        [](auto& a) { a.shape.out_channels = 0; }, [](auto& a) { a.shape.kernel = 0; },
        [](auto& a) { a.shape.kernel = 16; }, [](auto& a) { a.shape.height = 2; }, [](auto& a) { a.shape.width = 2; },
        [](auto& a) { a.shape.type = kNoType; }, [](auto& a) { a.shape.in_channels = kFar; },
        [](auto& a) { a.shape.height = kFar; }, [](auto& a) { a.shape.n = kFar; });
  };
  check(conv_relu_pool, ConvReluPoolArgs{});
  check(conv_relu_pool_grad_weights, ConvReluPoolGradWArgs{});
  check(conv_relu_pool_grad_input, ConvReluPoolGradXArgs{});
  const ConvReluPoolShape many_blocks{1 << 28, 1 << 20, 4, 4, 1 << 20, 3, /*planar=*/false, Type::f32};
  EXPECT_EQ(conv_relu_pool({.shape = many_blocks}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(conv_relu_pool_grad_input({.shape = many_blocks}, nullptr), cudaErrorInvalidValue);
  const ConvReluPoolShape few{0, 1, 4, 4, 1, 3, /*planar=*/false, Type::f32};
  expect_refused(
      conv_relu_pool_grad, ConvReluPoolGradArgs{.weights = {.shape = few}, .input = {.shape = few}},
      [](auto& a) { a.weights.shape.n = a.input.shape.n = -1; }, [](auto& a) { a.input.shape.width = 5; },
      [](auto& a) { a.weights.shape.n = a.input.shape.n = 1 << 20; });  // which takes a workspace
}

TEST(Refused, Copy) {
  expect_refused(
      copy, CopyArgs{}, [](auto& a) { a.bytes = -1; }, [](auto& a) { a.bytes = int64_t{1} << 62; });
}

TEST(Refused, Dropout) {
  const DropoutArgs good{.type = Type::f32, .n = 1};
  expect_refused(
      dropout, good, [](auto& a) { a.n = -1; }, [](auto& a) { a.n = (int64_t{1} << 34) + 1; },
      [](auto& a) { a.type = kNoType; });
  expect_done(dropout, good, [](auto& a) { a.n = 0; });
}

TEST(Refused, Edit) {
  const EditArgs good{.n = 1, .channels = 3, .height = 2, .width = 2, .stride = 1, .count = 1};
  expect_refused(
      edit, good, [](auto& a) { a.n = -1; }, [](auto& a) { a.channels = -1; },
      [](auto& a) { a.width = kMaxEditSide + 1; }, [](auto& a) { a.channels = kFar; }, [](auto& a) { a.n = kMany; });
  expect_done(
      edit, good, [](auto& a) { a.n = 0; }, [](auto& a) { a.width = 0; });
}

TEST(Refused, Elementwise) {
  const auto relu = Activation::relu;
  expect_refused(
      activate, ActivateArgs{.type = Type::f32, .activation = relu, .n = 8}, [](auto& a) { a.type = kNoType; },
      [](auto& a) { a.n = -1; }, [](auto& a) { a.activation = Activation::none; });
  expect_done(activation_grad, ActivationGradArgs{.type = Type::f32, .activation = relu, .n = 8},
              [](auto& a) { a.n = 0; });
  expect_refused(cast, CastArgs{.from = Type::f32, .n = 8}, [](auto& a) { a.to = kNoType; });
  expect_refused(
      copy_rows, CopyRowsArgs{.type = Type::f32, .rows = 1, .features = 8, .x_stride = 8, .y_stride = 8},
      [](auto& a) { a.x_stride = 7; }, [](auto& a) { a.y_stride = 7; });
  expect_refused(zero_pads, ZeroPadsArgs{.type = Type::f32, .rows = 1, .features = 8, .stride = 8},
                 [](auto& a) { a.features = 9; });
}

TEST(Refused, Experts) {
  const auto check = [](auto launcher, auto good) {
    good.shape = {Type::f32, 4, 16, 2, 2, 1};
    expect_refused(
        launcher, good, [](auto& a) { a.shape.type = kNoType; }, [](auto& a) { a.shape.rows = 0; },
        [](auto& a) { a.shape.stride = 0; }, [](auto& a) { a.shape.experts = kMostExperts + 1; },
        [](auto& a) { a.shape.capacity = 5; }, [](auto& a) { a.shape.top_k = 3; });
  };
  check(dispatch, DispatchArgs{});
  check(combine, CombineArgs{});
  check(combine_grad_weights, CombineGradWeightsArgs{});
  expect_refused(jitter, JitterArgs{.type = Type::f32}, [](auto& a) { a.n = -1; });
  expect_refused(softmax_mix, SoftmaxMixArgs{.type = Type::f32, .rows = 1, .stride = 4, .score_stride = 2},
                 [](auto& a) { a.score_stride = 1; });
  expect_refused(softmax_mix_grad, SoftmaxMixGradArgs{.type = Type::f32, .rows = 1, .stride = 4, .score_stride = 2},
                 [](auto& a) { a.rows = -1; });
}

TEST(Refused, Fff) {
  const auto check = [](auto launcher, auto good) {
    good.type = Type::f32, good.rows = 1, good.stride = 16, good.trees = {1, 3, 2};
    expect_refused(
        launcher, good, [](auto& a) { a.type = kNoType; }, [](auto& a) { a.rows = -1; }, [](auto& a) { a.stride = 14; },
        [](auto& a) { a.trees.count = 0; }, [](auto& a) { a.trees.count = 2; }, [](auto& a) { a.trees.depth = -1; },
        [](auto& a) { a.trees.depth = 31; }, [](auto& a) { a.trees.fanout = 1; }, [](auto& a) { a.trees.fanout = 4; });
    expect_done(launcher, good, [](auto& a) { a.rows = 0; });
  };
  check(tree_gelu, TreeGeluArgs{});
  check(tree_gelu_grad, TreeGeluGradArgs{});
}

TEST(Refused, LayerNorm) {
  const auto check = [](auto launcher, auto good) {
    good.type = Type::f32, good.rows = 3, good.columns = 20, good.stride = 32;
    expect_refused(
        launcher, good, [](auto& a) { a.rows = 0; }, [](auto& a) { a.columns = 0; }, [](auto& a) { a.stride = 19; },
        [](auto& a) { a.type = kNoType; });
  };
  check(layer_norm, LayerNormArgs{});
  check(layer_norm_grad, LayerNormGradArgs{});
  const float x = 0;  // a residual without a place for the sum
  expect_refused(layer_norm, LayerNormArgs{.type = Type::f32, .rows = 3, .columns = 20, .stride = 32},
                 [&](auto& a) { a.residual = &x; });
}

TEST(Refused, Linear) {
  const auto check = [](auto launcher, auto good, auto... strides) {
    good.type = good.y_type = Type::f32, good.n = good.in = good.out = 1;
    ((good.*strides = 1), ...);
    expect_refused(
        launcher, good, [](auto& a) { a.n = -1; }, [](auto& a) { a.in = 0; }, [](auto& a) { a.out = 0; },
        [](auto& a) { a.y_type = Type::bf16; }, [](auto& a) { a.type = kNoType; }, [=](auto& a) { a.*strides = 0; }...,
        [=](auto& a) { a.*strides = kMany; }...,
        [=](auto& a) { a.n = a.in = a.out = int64_t{1} << 30, ((a.*strides = a.n), ...); });  // too many blocks
  };
  using X = LinearArgs;
  using Y = LinearGradXArgs;
  using W = LinearGradWArgs;
  check(linear, X{}, &X::x_stride, &X::w_stride, &X::y_stride);
  check(linear_grad_input, Y{}, &Y::w_stride, &Y::dy_stride, &Y::dx_stride);
  check(linear_grad_weights, W{}, &W::x_stride, &W::dy_stride, &W::dw_stride);
  const W w{Type::f32, Type::f32, 0, 1, 1, 1, 1, 1};
  const Y y{Type::f32, Type::f32, 0, 1, 1, 1, 1, 1};
  expect_refused(
      linear_grad, LinearGradArgs{.weights = w, .input = y}, [](auto& a) { a.weights.dw_stride = 0; },
      [](auto& a) { a.input.dx_stride = 0; }, [](auto& a) { a.input.type = Type::bf16; },
      [](auto& a) { a.weights.out = 2; });
}

TEST(Refused, Optimizer) {
  expect_refused(blend, BlendArgs{.micro_batches = 1}, [](auto& a) { a.micro_batches = 0; });
}

TEST(Refused, Patches) {
  const PatchShape shape{.type = Type::f32,
                         .n = 1,
                         .channels = 3,
                         .height = 8,
                         .width = 8,
                         .patch = 4,
                         .down = 2,
                         .across = 2,
                         .y_stride = 240};
  const PatchesArgs good{.shape = shape, .shift = 1};
  expect_refused(
      patches, good, [](auto& a) { a.shape.down = 0; }, [](auto& a) { a.shape.patch = 0; },
      [](auto& a) { a.shift = -1; }, [](auto& a) { a.shape.before = -1; }, [](auto& a) { a.shape.y_stride = 239; },
      [](auto& a) { a.shape.n = -1; }, [](auto& a) { a.shape.n = 1 << 30; },
      [](auto& a) { a.shape.height = a.shape.width = a.shape.channels = 1 << 11; });
  expect_done(patches, good, [](auto& a) { a.shape.n = 0; });
  expect_refused(
      pixels_of_patches, PixelsOfPatchesArgs{.shape = shape}, [](auto& a) { a.shape.before = 1; },
      [](auto& a) { a.shape.down = 1; }, [](auto& a) { a.shape.across = 1; }, [](auto& a) { a.shape.y_stride = 47; });
  expect_done(pixels_of_patches, PixelsOfPatchesArgs{.shape = shape}, [](auto& a) { a.shape.n = 0; });
}

TEST(Refused, Pool) {
  const auto check = [](auto launcher, auto good) {
    good.type = Type::f32, good.n = good.channels = 1, good.height = good.width = 4;
    good.kernel = good.stride = 2;
    struct Window {
      int kernel, stride, pad;
    };
    for (const Window& w : {Window{0, 1, 0}, {16, 2, 0}, {3, 0, 1}, {3, -1, 1}, {3, 2, 2}, {3, 2, -1}})  // 16: u8's end
      expect_refused(launcher, good, [&](auto& a) { a.kernel = w.kernel, a.stride = w.stride, a.pad = w.pad; });
    expect_refused(launcher, good, [](auto& a) { a.n = 2 * kMany; });
    expect_refused(
        launcher, good, [](auto& a) { a.height = 2 * kMany, a.channels = 4; },
        [](auto& a) { a.height = 2 * kMany, a.channels = 4, a.kernel = 3, a.pad = 1; });
    expect_done(
        launcher, good, [](auto& a) { a.n = 0; }, [](auto& a) { a.channels = 0; });
  };
  check(max_pool, MaxPoolArgs{});
  check(max_pool_grad, MaxPoolGradArgs{});
  expect_refused(
      average_pool, AveragePoolArgs{.type = Type::f32, .n = 1, .pixels = 4, .channels = 2, .y_stride = 2},
      [](auto& a) { a.pixels = 0; }, [](auto& a) { a.y_stride = 1; });
  expect_refused(
      average_pool_grad, AveragePoolGradArgs{.type = Type::f32, .n = 1, .pixels = 4, .channels = 2, .dy_stride = 2},
      [](auto& a) { a.dy_stride = 1; }, [](auto& a) { a.pixels = 2 * kMany; });
}

TEST(Refused, Routing) {
  const auto check = [](auto launcher, auto good) {
    good.shape = {4, 2, 16, 2, 1};
    expect_refused(
        launcher, good, [](auto& a) { a.shape.rows = 0; }, [](auto& a) { a.shape.rows = kMostRoutedRows + 1; },
        [](auto& a) { a.shape.experts = 0; }, [](auto& a) { a.shape.experts = a.shape.stride = kMostExperts + 1; },
        [](auto& a) { a.shape.stride = 1; }, [](auto& a) { a.shape.capacity = 0; },
        [](auto& a) { a.shape.capacity = 5; }, [](auto& a) { a.shape.top_k = 3; },
        [](auto& a) { a.shape.experts = 1, a.shape.top_k = 2; });
  };
  check(route, RouteArgs{});
  check(route_grad, RouteGradArgs{});
  expect_refused(route, RouteArgs{.shape = {4, 2, 16, 2, 1}}, [](auto& a) { a.sampled = true; });
}

TEST(Refused, SequencePool) {
  const auto check = [](auto launcher, auto good) {
    good.shape = {Type::f32, 1, 2, 3, 16, 16};
    expect_refused(
        launcher, good, [](auto& a) { a.shape.type = kNoType; }, [](auto& a) { a.shape.n = -1; },
        [](auto& a) { a.shape.tokens = 0; }, [](auto& a) { a.shape.tokens = 4097; },
        [](auto& a) { a.shape.stride = 2; }, [](auto& a) { a.shape.score_stride = 0; });
    expect_done(launcher, good, [](auto& a) { a.shape.n = 0; });
  };
  check(sequence_pool, SequencePoolArgs{});
  check(sequence_pool_grad, SequencePoolGradArgs{});
}

TEST(Refused, SoftmaxCrossEntropy) {
  const SoftmaxCrossEntropyArgs good{.n = 1, .classes = 10, .stride = 16};
  expect_refused(
      softmax_cross_entropy, good, [](auto& a) { a.classes = 0; }, [](auto& a) { a.classes = 17; });
  expect_done(softmax_cross_entropy, good, [](auto& a) { a.n = 0; });
}

TEST(Refused, Tokens) {
  const auto check = [](auto launcher, auto good) {
    good.type = Type::f32, good.n = 1, good.tokens = 2, good.columns = 8, good.x_stride = good.stride = 16;
    expect_refused(
        launcher, good, [](auto& a) { a.n = -1; }, [](auto& a) { a.tokens = 0; }, [](auto& a) { a.columns = 17; },
        [](auto& a) { a.x_stride = 7; }, [](auto& a) { a.stride = 8; }, [](auto& a) { a.tokens = kMany; });
  };
  check(tokens, TokensArgs{});
  check(tokens_grad, TokensGradArgs{});
}

TEST(Refused, TreeSum) {
  float x = 0;
  const std::vector<float*> levels(kMaxLevels + 1, &x);
  const std::vector<const float*> terms(kMaxTerms + 1, &x);
  const TreePushArgs good{.last = false, .levels = levels.data(), .level_count = kMaxLevels, .n = 0};
  expect_refused(
      tree_push, good, [](auto& a) { a.level_count = 0; }, [](auto& a) { a.level_count = kMaxLevels + 1; },
      [](auto& a) { a.last = true; }, [&](auto& a) { a.last = true, a.level_count = -1, a.out = &x; });
  expect_done(
      tree_push, good, [](auto&) {}, [&](auto& a) { a.last = true, a.level_count = 0, a.values = a.out = &x; });
  expect_refused(
      sum_in_order, SumInOrderArgs{.terms = terms.data(), .out = &x, .n = 1}, [](auto& a) { a.count = 0; },
      [](auto& a) { a.count = -1; }, [](auto& a) { a.count = kMaxTerms + 1; });
}

}  // namespace
}  // namespace ct::kernels
