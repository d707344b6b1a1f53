// Every operation of a program, as plain data: the values that it reads and writes, and its numbers. An operation does
// not define its execution; a backend prepares each kind once (device/backend.h). Gradient ops write (never accumulate
// into) their results. A ValueId of kNone marks an absent operand.
//
// docs/extending.md lists the parts of a new operation; without one of them the program does not compile.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "graph/activation.h"
#include "graph/fff_trees.h"
#include "graph/loss_scale.h"
#include "graph/optimizer_rules.h"
#include "tensor/tensor.h"

namespace ct {

using ValueId = int32_t;
inline constexpr ValueId kNone = -1;
using Ids = std::vector<ValueId>;

/// The role of an operation: each layer has a gradient rule (graph/autodiff.cpp), except layers of evaluation.
enum class Role : uint8_t { input, layer, evaluation, loss, gradient, update };
/// The limit of its speed: the bytes it moves, or the floating-point operations that plan/cost.cpp counts.
enum class Limit : uint8_t { memory, arithmetic };
struct OpFacts {
  Role role;
  Limit limit;
};

// ---- input

/// out[n] = images[n] changed by draw number `which` of the `of` that each image has (graph/edit_draw.h). images and
/// out u8 [N][C][H][W], draws i32 [N][of][8]; fill[c] replaces pixels that are cut out.
struct Edit {
  static constexpr std::string_view kName = "edit";
  static constexpr OpFacts kFacts{Role::input, Limit::memory};
  ValueId images, draws, out;
  int which, of;
  std::vector<uint8_t> fill;
  Ids reads() const { return {images, draws}; }
  Ids writes() const { return {out}; }
};

/// out[n][c][y][x] = u8 * scale[c] + shift[c] of the pixel at (y + dy, x' + dx), x' mirrored when flipped; outside the
/// image the pixel is 0. images u8 [N][C][H][W], draws i32 [N][4] = {dy, dx, flip, 0}.
struct Augment {
  static constexpr std::string_view kName = "augment";
  static constexpr OpFacts kFacts{Role::input, Limit::memory};
  ValueId images, draws, out;
  std::vector<float> scale, shift;
  Ids reads() const { return {images, draws}; }
  Ids writes() const { return {out}; }
};

/// Square patches of planar images as tokens, row by row: y[n][t][(row, column, c)] is channel c of that pixel of patch
/// t. shift > 0: each pixel has four more sets of channels, from the image shifted by that many pixels to the right,
/// left, down and up; pixels outside the image are 0.
struct Patches {
  static constexpr std::string_view kName = "patches";
  static constexpr OpFacts kFacts{Role::input, Limit::memory};
  ValueId images, y;
  int patch, shift;
  Ids reads() const { return {images}; }
  Ids writes() const { return {y}; }
};

// ---- layers

// Activations and their gradients are in the graph's compute type (f32, bf16 or f16), and so are weights of rank 2 and
// more; vectors, gradients of parameters, logits and their gradient are f32, and so is all arithmetic inside.

/// y = max over 2x2 of relu(conv(x, w) + b), stride 1, no padding; argmax (u8, like y) is the place of the first
/// maximum in its window, 4 if ReLU clips it. x is planar images or NHWC; w [out][kh][kw][in]; y NHWC.
struct ConvReluPool {
  static constexpr std::string_view kName = "conv_relu_pool";
  static constexpr OpFacts kFacts{Role::layer, Limit::arithmetic};
  ValueId x, w, b, y, argmax;
  int kernel;
  bool planar;
  Ids reads() const { return {x, w, b}; }
  Ids writes() const { return {y, argmax}; }
};
struct ConvReluPoolGradW {
  static constexpr std::string_view kName = "conv_relu_pool_grad_w";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId x, dy, argmax, dw, db;
  int kernel;
  bool planar;
  Ids reads() const { return {x, dy, argmax}; }
  Ids writes() const { return {dw, db}; }
};
struct ConvReluPoolGradX {
  static constexpr std::string_view kName = "conv_relu_pool_grad_x";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId w, dy, argmax, dx;
  int kernel;
  Ids reads() const { return {w, dy, argmax}; }
  Ids writes() const { return {dx}; }
};

/// y = conv(x, w) + b, NHWC; w [out][kh][kw][in].
struct Conv2d {
  static constexpr std::string_view kName = "conv2d";
  static constexpr OpFacts kFacts{Role::layer, Limit::arithmetic};
  ValueId x, w, b, y;
  int kernel, stride, pad;
  bool planar;
  Ids reads() const { return b == kNone ? Ids{x, w} : Ids{x, w, b}; }
  Ids writes() const { return {y}; }
};
struct Conv2dGradW {
  static constexpr std::string_view kName = "conv2d_grad_w";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId x, dy, dw, db;
  int kernel, stride, pad;
  bool planar;
  Ids reads() const { return {x, dy}; }
  Ids writes() const { return db == kNone ? Ids{dw} : Ids{dw, db}; }
};
struct Conv2dGradX {
  static constexpr std::string_view kName = "conv2d_grad_x";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId w, dy, dx;
  int kernel, stride, pad;
  Ids reads() const { return {w, dy}; }
  Ids writes() const { return {dx}; }
};

/// 2-D max pooling, NHWC: windows of kernel x kernel, a stride apart, the first `pad` outside the image; windows that
/// exceed the padded image are left out. Pixels outside the image are ignored. argmax (u8) is the index of the first
/// maximum in its window, row by row.
struct MaxPool {
  static constexpr std::string_view kName = "max_pool";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, y, argmax;
  int kernel, stride, pad;
  Ids reads() const { return {x}; }
  Ids writes() const { return {y, argmax}; }
};
/// A pixel's gradient is the sum of dy over the windows whose maximum it is, in the windows' order.
struct MaxPoolGrad {
  static constexpr std::string_view kName = "max_pool_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId dy, argmax, dx;
  int kernel, stride, pad;
  Ids reads() const { return {dy, argmax}; }
  Ids writes() const { return {dx}; }
};

/// y = mean over the image: [N][H][W][C] -> [N][C].
struct AveragePool {
  static constexpr std::string_view kName = "average_pool";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, y;
  Ids reads() const { return {x}; }
  Ids writes() const { return {y}; }
};
struct AveragePoolGrad {
  static constexpr std::string_view kName = "average_pool_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId dy, dx;
  Ids reads() const { return {dy}; }
  Ids writes() const { return {dx}; }
};

/// Batch normalisation over all but the last dimension (Ioffe & Szegedy, 2015), a residual and ReLU in one:
/// y = relu((x - mean) / sqrt(var + eps) * w + b + residual); residual kNone: none. Training computes mean and (biased)
/// var of the micro-batch, f32 [C]; evaluation (mean and var kNone) takes the running statistics.
struct BatchNorm {
  static constexpr std::string_view kName = "batch_norm";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, residual, w, b, running_mean, running_var, y, mean, var;
  double eps;
  bool relu;
  Ids reads() const;
  Ids writes() const { return mean == kNone ? Ids{y} : Ids{y, mean, var}; }
};
/// Gradients of BatchNorm: with g = dy where y > 0 (y kNone, no ReLU: dy), dresidual = g, unless it is kNone; dw, db;
/// and, in the place of gradients of the running statistics, batch_mean = mean and batch_var = the unbiased variance.
/// If b is not kNone, there was a ReLU and no residual, so y > 0 can be recomputed from x.
struct BatchNormGrad {
  static constexpr std::string_view kName = "batch_norm_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId x, y, dy, w, b, mean, var, dx, dresidual, dw, db, batch_mean, batch_var;
  double eps;
  Ids reads() const;
  Ids writes() const;
};

/// Layer normalisation over the last dimension (Ba, Kiros & Hinton, 2016), a residual before it: sum = x + residual,
/// y = (sum - mean) * rstd * w + b with a row's mean and rstd = 1 / sqrt(var + eps), var biased. residual and sum
/// kNone: of x itself. mean and rstd f32 [rows]; kNone: not written.
struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, residual, w, b, sum, y, mean, rstd;
  double eps;
  Ids reads() const;
  Ids writes() const;
};
/// Gradients of LayerNorm of x (with a residual: of the sum): dw, db, and dx, to which dsum is added, the gradient by
/// the other uses of x (kNone: none). dx kNone: not written.
struct LayerNormGrad {
  static constexpr std::string_view kName = "layer_norm_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId x, dy, dsum, w, mean, rstd, dx, dw, db;
  Ids reads() const;
  Ids writes() const;
};

/// y = activation(x).
struct Activate {
  static constexpr std::string_view kName = "activation";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  Activation activation;
  ValueId x, y;
  std::string_view name() const { return names_of(activation).forward; }
  Ids reads() const { return {x}; }
  Ids writes() const { return {y}; }
};
/// dx = dy activation'(x). If is_fused(activation), x is the result.
struct ActivationGrad {
  static constexpr std::string_view kName = "activation_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  Activation activation;
  ValueId x, dy, dx;
  std::string_view name() const { return names_of(activation).gradient; }
  Ids reads() const { return {x, dy}; }
  Ids writes() const { return {dx}; }
};

/// [N][...] -> [N][features]: a copy, because rank-2 rows are padded.
struct Flatten {
  static constexpr std::string_view kName = "flatten";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, y;
  Ids reads() const { return {x}; }
  Ids writes() const { return {y}; }
};
struct FlattenGrad {
  static constexpr std::string_view kName = "flatten_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId dy, dx;
  Ids reads() const { return {dy}; }
  Ids writes() const { return {dx}; }
};

/// Tokens of a transformer: class_token [1][1][C] before those of x, unless it is kNone, and positions [1][T][C] added
/// to all. x is tokens or an image, whose pixels are tokens row by row.
struct Tokens {
  static constexpr std::string_view kName = "tokens";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, class_token, positions, y;
  Ids reads() const { return class_token == kNone ? Ids{x, positions} : Ids{x, class_token, positions}; }
  Ids writes() const { return {y}; }
};
/// dpositions = sum over the images of dy, in a fixed order; dclass_token is its first row; dx = dy without that row.
struct TokensGrad {
  static constexpr std::string_view kName = "tokens_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId dy, dx, dclass_token, dpositions;
  Ids reads() const { return {dy}; }
  Ids writes() const { return dclass_token == kNone ? Ids{dx, dpositions} : Ids{dx, dclass_token, dpositions}; }
};

/// y = each image's token 0: [N][T][C] -> [N][C].
struct TakeToken {
  static constexpr std::string_view kName = "take_token";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, y;
  Ids reads() const { return {x}; }
  Ids writes() const { return {y}; }
};
/// dx = dy for token 0, 0 for the others.
struct TakeTokenGrad {
  static constexpr std::string_view kName = "take_token_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId dy, dx;
  Ids reads() const { return {dy}; }
  Ids writes() const { return {dx}; }
};

/// y = activation(z), z = x w^T + b; x [..][in], w [out][in], b kNone: none, y [..][out]. `before`: z in the type of
/// activations, for the gradient of an activation that is not fused; kNone: not written.
struct Linear {
  static constexpr std::string_view kName = "linear";
  static constexpr OpFacts kFacts{Role::layer, Limit::arithmetic};
  ValueId x, w, b, y;
  Activation activation = Activation::none;
  ValueId before = kNone;
  Ids reads() const { return b == kNone ? Ids{x, w} : Ids{x, w, b}; }
  Ids writes() const { return before == kNone ? Ids{y} : Ids{y, before}; }
};
struct LinearGradX {
  static constexpr std::string_view kName = "linear_grad_x";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId w, dy, dx;
  Ids reads() const { return {w, dy}; }
  Ids writes() const { return {dx}; }
};
struct LinearGradW {
  static constexpr std::string_view kName = "linear_grad_w";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId x, dy, dw, db;  // db kNone: no bias
  Ids reads() const { return {x, dy}; }
  Ids writes() const { return db == kNone ? Ids{dw} : Ids{dw, db}; }
};

/// y = GELU of x at the units that a row visits (graph/fff_trees.h), 0 at the others; x, y [..][trees.width()]: the
/// activation of a fast feedforward layer in training.
struct TreeGelu {
  static constexpr std::string_view kName = "tree_gelu";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, y;
  FffTrees trees;
  Ids reads() const { return {x}; }
  Ids writes() const { return {y}; }
};
/// dx = dy times GELU's derivative at the units that x visits, 0 at the others: the choice of a path has no gradient.
struct TreeGeluGrad {
  static constexpr std::string_view kName = "tree_gelu_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId x, dy, dx;
  FffTrees trees;
  Ids reads() const { return {x, dy}; }
  Ids writes() const { return {dx}; }
};
/// A whole fast feedforward layer: y = sum over the units u that a row visits of GELU(x w_in[u]^T + b_in[u])
/// w_out[.][u]; x [..][in], w_in [trees.width()][in], w_out [out][trees.width()], y [..][out]. A CPU computes visited
/// units only.
struct Fff {
  static constexpr std::string_view kName = "fff";
  static constexpr OpFacts kFacts{Role::evaluation, Limit::arithmetic};
  ValueId x, w_in, b_in, w_out, y;
  FffTrees trees;
  Ids reads() const { return {x, w_in, b_in, w_out}; }
  Ids writes() const { return {y}; }
};

/// Attention of T tokens to each other, head by head (Vaswani et al., 2017). qkv [N][T][3*heads*D] holds queries, then
/// keys, then values, each head by head; y [N][T][heads*D] = softmax(logits) v, logits[i][j] = q_i . k_j * scale, or
/// * exp(temperature) with temperature f32 [1]. mask_diagonal: no token attends to itself. log_sum_exp f32
/// [N*heads*T]: the log-sum-exp of a token's logits; kNone: evaluation.
struct Attention {
  static constexpr std::string_view kName = "attention";
  static constexpr OpFacts kFacts{Role::layer, Limit::arithmetic};
  ValueId qkv, temperature, y, log_sum_exp;
  int heads;
  float scale;
  bool mask_diagonal;
  Ids reads() const;
  Ids writes() const { return log_sum_exp == kNone ? Ids{y} : Ids{y, log_sum_exp}; }
};
/// The weights are recomputed from qkv and log_sum_exp. dtemperature, unless it is kNone, f32 [1].
struct AttentionGrad {
  static constexpr std::string_view kName = "attention_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::arithmetic};
  ValueId qkv, temperature, log_sum_exp, dy, dqkv, dtemperature;
  int heads;
  float scale;
  bool mask_diagonal;
  Ids reads() const;
  Ids writes() const { return dtemperature == kNone ? Ids{dqkv} : Ids{dqkv, dtemperature}; }
};

/// y [N][C] = sum over tokens of softmax(score)[t] * x[t] (Hassani et al., 2021); x [N][T][C], score [N][T][1].
struct SequencePool {
  static constexpr std::string_view kName = "sequence_pool";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, score, y;
  Ids reads() const { return {x, score}; }
  Ids writes() const { return {y}; }
};
struct SequencePoolGrad {
  static constexpr std::string_view kName = "sequence_pool_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId x, score, dy, dx, dscore;
  Ids reads() const { return {x, score, dy}; }
  Ids writes() const { return {dx, dscore}; }
};

/// y = x / (1 - p) where the mask keeps an element, which it does with probability 1 - p, else 0. Its own gradient.
/// Each use draws the mask again (graph/dropout_key.h) from the key, the operation's number among the model's dropouts,
/// and the element's index in memory.
struct Dropout {
  static constexpr std::string_view kName = "dropout";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, key, y;
  double p;
  int number;
  Ids reads() const { return {x, key}; }
  Ids writes() const { return {y}; }
};

/// The gate of a mixture of experts, which assigns T rows to experts (Shazeer et al., 2017; Fedus et al., 2021), from
/// logits f32 [T][E]. A row's first expert has the largest logit; in sampled top-1 routing the largest logit plus
/// Gumbel noise. The second expert (top_k 2; Lepikhin et al., 2020) has the largest of the other logits, in training
/// plus Gumbel noise. An expert takes at most `capacity` rows. If more rows select it, top_k 1 keeps those with the
/// greatest random numbers; evaluation and top_k 2 keep the first ones, all first choices before all second ones. The
/// others are dropped.
///   slots i32 [T * top_k]      expert * capacity + place of each choice of a row; -1: dropped
///   sources i32 [E * capacity] the choice, row * top_k + number, at that place; -1: none
///   weights f32 [T * top_k]    the softmax of the logits at the expert, for two experts divided by their sum; dropped:
///   0 load f32 [E]               the share of rows whose first choice is the expert
/// balance f32 [1] E * sum over experts of load * mean softmax (kNone: not written) Draws are keyed
/// (graph/routing_draws.h) by `key` (kNone: no draws, as in evaluation) and the operation's number among the model's
/// routings and jitters.
struct Route {
  static constexpr std::string_view kName = "route";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId logits, key, slots, sources, weights, load, balance;
  int64_t capacity;
  int top_k;
  bool sampled;
  double balance_coefficient;  // weight of the balance in the loss
  int number;
  Ids reads() const { return key == kNone ? Ids{logits} : Ids{logits, key}; }
  Ids writes() const;
};
/// dlogits f32 [T][E], the gradient through the weights (dweights f32 [T * top_k]) and through the balance times its
/// coefficient. Choices have no gradient.
struct RouteGrad {
  static constexpr std::string_view kName = "route_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId logits, slots, load, dweights, dlogits;
  int64_t capacity;
  int top_k;
  double balance_coefficient;
  ValueId loss_scale = kNone;  // LossScaleState; its scale multiplies the coefficient
  double predivide = 1;        // divides the coefficient
  Ids reads() const;
  Ids writes() const { return {dlogits}; }
};
/// Dispatches rows to experts: row `place` of to[e] ([capacity][C] each) = x[row] (* weights[choice], unless weights is
/// kNone) for the choice in Route::sources, 0 if there is none.
struct Dispatch {
  static constexpr std::string_view kName = "dispatch";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, sources, weights;
  Ids to;
  int top_k;
  Ids reads() const { return weights == kNone ? Ids{x, sources} : Ids{x, sources, weights}; }
  Ids writes() const { return to; }
};
/// Combines experts' results: y[row] = sum over its choices that were not dropped of weights[choice] (kNone: 1) * the
/// row of from[e] in Route::slots. A non-finite weight makes its row non-finite, also if the choice was dropped.
/// Combine is the gradient of a Dispatch without weights, and a Dispatch with weights that of a Combine for `from`.
struct Combine {
  static constexpr std::string_view kName = "combine";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  Ids from;
  ValueId slots, weights, y;
  int top_k;
  Ids reads() const;
  Ids writes() const { return {y}; }
};
/// dweights[choice] f32 = the row of from[e] in Route::slots times dy[row]; 0 for dropped choices.
struct CombineGradWeights {
  static constexpr std::string_view kName = "combine_grad_weights";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  Ids from;
  ValueId slots, dy, dweights;
  int top_k;
  Ids reads() const;
  Ids writes() const { return {dweights}; }
};
/// y = x times a random factor between 0.99 and 1.01 for each element in memory, drawn like Route's. Its own gradient.
struct Jitter {
  static constexpr std::string_view kName = "jitter";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId x, key, y;
  int number;
  Ids reads() const { return {x, key}; }
  Ids writes() const { return {y}; }
};
/// y = c[0] a + c[1] b, row by row, with c the softmax of scores f32 [T][2].
struct SoftmaxMix {
  static constexpr std::string_view kName = "softmax_mix";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId a, b, scores, y;
  Ids reads() const { return {a, b, scores}; }
  Ids writes() const { return {y}; }
};
struct SoftmaxMixGrad {
  static constexpr std::string_view kName = "softmax_mix_grad";
  static constexpr OpFacts kFacts{Role::gradient, Limit::memory};
  ValueId a, b, scores, dy, da, db, dscores;
  Ids reads() const { return {a, b, scores, dy}; }
  Ids writes() const { return {da, db, dscores}; }
};

/// y = a + b: a residual connection, or two gradients that meet.
struct Add {
  static constexpr std::string_view kName = "add";
  static constexpr OpFacts kFacts{Role::layer, Limit::memory};
  ValueId a, b, y;
  Ids reads() const { return {a, b}; }
  Ids writes() const { return {y}; }
};

/// losses f32 [N], predicted i32 [N] (first maximum), label_rank i32 [N] (the number of classes above the label: < 5 is
/// a top-5 hit; a NaN is above every logit, and every logit is above a label's NaN). dlogits = d mean(losses) / d
/// logits, NaN if a loss is not finite, so that the step is skipped; kNone: evaluation. The target of a mixed image is
/// second_labels with weight second_shares f32 [N] and labels with the rest.
struct SoftmaxCrossEntropy {
  static constexpr std::string_view kName = "softmax_cross_entropy";
  static constexpr OpFacts kFacts{Role::loss, Limit::memory};
  ValueId logits, labels, losses, predicted, label_rank, dlogits;
  float label_smoothing;
  ValueId loss_scale = kNone;  // LossScaleState (graph/loss_scale.h); its scale multiplies dlogits
  ValueId second_labels = kNone, second_shares = kNone;
  double predivide = 1;  // divides dlogits, and so every gradient
  Ids reads() const;
  Ids writes() const {
    return dlogits == kNone ? Ids{losses, predicted, label_rank} : Ids{losses, predicted, label_rank, dlogits};
  }
};

// ---- update: ops over ranges of the flat order (plan/flat.h). Operands are views of equal length.

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// y = x in y's element type: a copy of master weights in the compute type.
struct Cast {
  static constexpr std::string_view kName = "cast";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  ValueId x, y;
  Ids reads() const { return {x}; }
  Ids writes() const { return {y}; }
};

/// One leaf of the step's gradient sum (binary counter; comm/reduction/tree_sum.h). The leaf's number is `counter`,
/// which the operation increments. The last leaf of the step merges all levels into `leaf` and sets the counter to 0.
struct TreePush {
  static constexpr std::string_view kName = "tree_push";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  ValueId leaf, counter;
  Ids levels;  // one only: leaves are added as they arrive, in any order
  bool last;
  Ids reads() const;
  Ids writes() const;
};

/// sums[chunks[i].sum] (f64) = sum of squares of grads' elements in chunks[i].range.
struct SquareSums {
  static constexpr std::string_view kName = "square_sums";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  struct Chunk {
    Range range;
    int64_t sum;
  };
  ValueId grads, sums;
  std::vector<Chunk> chunks;
  Ids reads() const { return {grads}; }
  Ids writes() const { return {sums}; }
};

/// The scalars of this update (plan/step_scalars.h), from the chunk sums, the schedule and the counters: norm, clip
/// factor, learning rate, the optimizer's coefficients, skip. Advances the count of applied steps unless the step is
/// skipped.
struct StepControl {
  static constexpr std::string_view kName = "step_control";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  ValueId sums, schedule, scalars;
  double clip;                 // 0: off
  int64_t micro_batches;       // S, leaves of the sum: the gradient is their mean
  ValueId loss_scale = kNone;  // LossScaleState: gradients are scaled by it, and this step may change it
  LossScaleOptions loss_scale_options = {};
  double predivided = 1;  // divisor already applied to the leaves (SoftmaxCrossEntropy::predivide)
  Ids reads() const;
  Ids writes() const { return loss_scale == kNone ? Ids{scalars} : Ids{scalars, loss_scale}; }
};

/// A range of parameters with the same update rule. `masters` are f32; `copy` is kNone or the same weights in the
/// compute type.
struct UpdateSlice {
  ValueId masters, grads;
  Ids states;  // in the order of the rule's kStates; kNone or absent: not kept
  ValueId copy = kNone;
  double weight_decay = 0;
  float lr_scale = 1;
  int64_t tensor = -1;  // for rules that read trust ratios: the number of the slice's tensor
  ValueId state(size_t which) const { return which < states.size() ? states[which] : kNone; }
};
/// The base of all optimizers' operations. One operation updates many slices, because one large launch is faster than
/// many small ones. `scalars` (plan/step_scalars.h) hold the step's rate and the rule's Coefficients.
struct Update {
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  std::vector<UpdateSlice> slices;
  ValueId scalars;
  ValueId ratios = kNone;  // f32 [tensors]: the trust ratios that LARS and LAMB read
};
Ids reads_of(const Update& update);
Ids writes_of(const Update& update, bool writes_states);

/// An elementwise optimizer's operation (graph/optimizer_rules.h).
template <class R>
struct RuleUpdate : Update {
  using Rule = R;
  static constexpr std::string_view kName = Rule::kName;
  Rule rule;
  Ids reads() const { return reads_of(*this); }
  Ids writes() const { return writes_of(*this, Rule::kWritesStates); }
};

/// The first pass of LAMB, whose second is rules::Lamb: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// and, by chunks as in SquareSums, the sums of squares of the weights and of their update u = m / (sqrt(v) + eps) +
/// weight_decay p.
struct LambMoments {
  static constexpr std::string_view kName = "lamb_moments";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  struct Slice {
    ValueId masters, grads, exp_avg, exp_avg_sq;
    double weight_decay;
    std::vector<SquareSums::Chunk> chunks;  // in the slice
  };
  std::vector<Slice> slices;
  ValueId scalars, weight_sums, update_sums;
  double eps;
  Ids reads() const;
  Ids writes() const;
};

/// ratios[t] of tensor t = coefficient |w| / (|u| + weight_decay |w| + eps), limited to least..most; 1 if either norm
/// is 0. The norms |w| and |u| come from chunk sums, added in order.
struct TrustRatios {
  static constexpr std::string_view kName = "trust_ratios";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  struct Tensor {
    Range chunks;
    double weight_decay = 0;
    float lr_scale = 1;
    bool adapts = true;  // false: the ratio is 1
  };
  std::vector<Tensor> tensors;
  ValueId scalars, weight_sums, update_sums, ratios;
  double coefficient, eps, least, most;
  bool of_gradients;  // update_sums are of unscaled gradients: |u| is their norm times the step's grad_scale
  bool by_rate;       // the ratio is divided by the rate before it is limited
  Ids reads() const { return {scalars, weight_sums, update_sums}; }
  Ids writes() const { return {ratios}; }
};

/// The elementwise part of Muon: b += (1 - momentum) (g - b); grads = nesterov ? b + (1 - momentum) (g - b) : b.
struct MuonMomentum {
  static constexpr std::string_view kName = "muon_momentum";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  struct Slice {
    ValueId grads, momentum_buffer;
  };
  std::vector<Slice> slices;
  ValueId scalars;
  double momentum;
  bool nesterov;
  Ids reads() const;
  Ids writes() const;
};

/// Replaces x by scale times approximately the nearest matrix with orthonormal rows (or columns, if there are fewer),
/// by the Newton-Schulz iteration: x = x / max(|x|, eps), then `steps` times, with g = x x^T (or x^T x), x = a x + (b g
/// + c g g) x (or x (b g + c g g)). x is f32 with the rows of `left` and a row stride of `stride`. The others are
/// scratch: left and product f32 [rows][columns], gram and polynomial f32 [n][n] with n = min(rows, columns).
struct Orthogonalize {
  static constexpr std::string_view kName = "orthogonalize";
  static constexpr OpFacts kFacts{Role::update, Limit::arithmetic};
  ValueId x, left, product, gram, polynomial;
  int64_t stride;  // row stride of x in elements, at least left's columns
  int steps;
  std::array<double, 3> coefficients;  // a, b, c
  double eps, scale;
  Ids reads() const { return {x}; }
  Ids writes() const { return {x, left, product, gram, polynomial}; }
};

/// Running statistics: masters += momentum * (mean over the step's S micro-batches - masters), unless the step is
/// skipped. `sums` contains the sum over the micro-batches.
struct Blend {
  static constexpr std::string_view kName = "blend";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  struct Slice {
    ValueId masters, sums, copy;
    double momentum;
  };
  std::vector<Slice> slices;
  ValueId scalars;
  int64_t micro_batches;
  Ids reads() const;
  Ids writes() const;
};

/// Exponential moving average of the masters, running statistics among them: average += (1 - decay) (masters -
/// average), unless the step is skipped. Up to the applied step number `start`, counted from 1, the average is the
/// masters.
struct Ema {
  static constexpr std::string_view kName = "ema";
  static constexpr OpFacts kFacts{Role::update, Limit::memory};
  struct Slice {
    ValueId masters, average;
  };
  std::vector<Slice> slices;
  ValueId scalars;
  double decay;
  int64_t start;
  Ids reads() const;
  Ids writes() const;
};

// ---- communication, between the ranks' copies of the same value. `whole` is a value with the same content on all
// ranks; `place` maps elements of the flat order to bytes in it. `shard` contains the elements that this rank owns
// (plan/shards.h), packed, or is `whole` itself.

/// A run of elements of the flat order in a buffer: their type, and the byte of the first element.
struct Run {
  Range range;
  DType dtype = DType::f32;
  int64_t byte = 0;
};

/// data becomes the tree sum over ranks.
struct AllReduce {
  static constexpr std::string_view kName = "all_reduce";
  ValueId data;
  Ids reads() const { return {data}; }
  Ids writes() const { return {data}; }
};
/// Every rank's leaf is pushed, in rank order, into the owners' trees; the last call of a step leaves the finished sums
/// in the owners' shards. Calls in `micro` and `last` with the same place share their trees.
struct ReduceScatter {
  static constexpr std::string_view kName = "reduce_scatter";
  ValueId whole, shard;
  std::vector<Run> place;
  bool last;
  Ids reads() const { return {whole}; }
  Ids writes() const { return {shard}; }
};
/// Gathers the owners' shards into `whole` on every rank.
struct AllGather {
  static constexpr std::string_view kName = "all_gather";
  enum class What : uint8_t { params, grads, chunk_sums };  // chunk_sums: indices of chunks instead of elements
  ValueId whole, shard;
  std::vector<Run> place;
  What what;
  std::vector<int> owners = {};  // of each run of place; empty: the owners that plan/shards.h assigns
  Ids reads() const { return {shard}; }
  Ids writes() const { return {whole}; }
};

/// All compute operations except the optimizers' rules (optimizer_rules.h): CT_LAYER_OPS in the compute type,
/// CT_OTHER_OPS in one fixed type or in several types at once. These lists generate ComputeOp, the backends' prepare()
/// and the cases of selftest.
// clang-format off
#define CT_LAYER_OPS(X)                                                                                        \
  X(Augment) X(Patches) X(ConvReluPool) X(ConvReluPoolGradW) X(ConvReluPoolGradX)                              \
  X(Conv2d) X(Conv2dGradW) X(Conv2dGradX) X(MaxPool) X(MaxPoolGrad) X(AveragePool) X(AveragePoolGrad)          \
  X(BatchNorm) X(BatchNormGrad) X(LayerNorm) X(LayerNormGrad) X(Activate) X(ActivationGrad)                    \
  X(Flatten) X(FlattenGrad) X(Tokens) X(TokensGrad) X(TakeToken) X(TakeTokenGrad)                              \
  X(Linear) X(LinearGradX) X(LinearGradW) X(TreeGelu) X(TreeGeluGrad) X(Fff) X(Attention) X(AttentionGrad)     \
  X(SequencePool) X(SequencePoolGrad) X(Dropout) X(Dispatch) X(Combine) X(CombineGradWeights) X(Jitter)        \
  X(SoftmaxMix) X(SoftmaxMixGrad) X(Add)
#define CT_OTHER_OPS(X)                                                                                        \
  X(Edit) X(Route) X(RouteGrad) X(SoftmaxCrossEntropy) X(Cast) X(TreePush) X(SquareSums) X(StepControl)        \
  X(LambMoments) X(TrustRatios) X(MuonMomentum) X(Orthogonalize) X(Blend) X(Ema)
// clang-format on

/// The operations of both lists, and one for each rule.
#define CT_AND(Op) Op,
template <class Rules>
struct WithUpdates;
template <class... Rules>
struct WithUpdates<std::variant<Rules...>> {
  using type = std::variant<CT_LAYER_OPS(CT_AND) CT_OTHER_OPS(CT_AND) RuleUpdate<Rules>...>;
};
#undef CT_AND
using ComputeOp = WithUpdates<rules::Any>::type;
using CommOp = std::variant<AllReduce, ReduceScatter, AllGather>;
using Op = std::variant<ComputeOp, CommOp>;

std::string_view name_of(const Op& op);
Ids reads(const Op& op);
Ids writes(const Op& op);

}  // namespace ct
