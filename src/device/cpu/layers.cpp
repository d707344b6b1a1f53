#include "device/cpu/layers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "device/cpu/by_type.h"
#include "device/cpu/convolution.h"
#include "device/cpu/convolution_algorithms.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/activation.h"
#include "device/cpu/kernels/augment.h"
#include "device/cpu/kernels/batch_norm.h"
#include "device/cpu/kernels/conv_relu_pool.h"
#include "device/cpu/kernels/edit.h"
#include "device/cpu/kernels/layer_norm.h"
#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/max_pool.h"
#include "device/cpu/kernels/patches.h"
#include "device/cpu/kernels/plain.h"
#include "device/cpu/kernels/softmax_cross_entropy.h"
#include "device/cpu/kernels/tokens.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare(const Edit& op, const Shapes& shape) {
  return make_kernel([op, s = shape(op.out), count = shape(op.images)[0]](const Operands& at, float*) {
    return [op, s, count, images = at.u8(op.images), index = at.i32(op.index), draws = at.at<EditDraw>(op.draws),
            out = at.u8(op.out)] {
      edit({s[0], s[1], s[2], s[3], count, images, index, draws + op.which, op.of, op.fill.data(), out});
    };
  });
}

std::unique_ptr<Kernel> prepare(const Augment& op, const Shapes& shape) {
  return make_kernel([op, s = shape(op.out), count = shape(op.images)[0]](const Operands& at, float*) {
    return [op, s, count, images = at.u8(op.images), index = at.i32(op.index), draws = at.i32(op.draws),
            out = at.f32(op.out)] {
      augment({s[0], s[1], s[2], s[3], count, images, index, draws, op.scale.data(), op.shift.data(), out});
    };
  });
}

std::unique_ptr<Kernel> prepare(const Patches& op, const Shapes& shape) {
  const Shape& x = shape(op.images);
  const PatchesShape s{
      .n = x[0], .channels = x[1], .height = x[2], .width = x[3], .patch = op.patch, .shift = op.shift};
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return make_kernel([op, s](const Operands& at, float*) {
      return [s, images = at.at<T>(op.images), y = at.at<T>(op.y)] { patches(s, images, y); };
    });
  });
}

namespace {
ConvPoolShape pool_shape(const Shape& x, const Shape& y, int kernel, bool planar) {
  const ConvDims d = conv_dims(x, y, kernel, /*stride=*/1, /*pad=*/0, planar);
  return {d.n, d.in_channels, d.in_h, d.in_w, d.out_channels, d.kernel, d.planar};
}
size_t pool_workspace(const ConvPoolShape& s) { return conv_relu_pool_workspace(s) * sizeof(float); }
}  // namespace

std::unique_ptr<Kernel> prepare(const ConvReluPool& op, const Shapes& shape) {
  const ConvPoolShape s = pool_shape(shape(op.x), shape(op.y), op.kernel, op.planar);
  return one_call(conv_relu_pool, op, {.shape = s}, pool_workspace(s));
}

std::unique_ptr<Kernel> prepare(const ConvReluPoolGradW& op, const Shapes& shape) {
  const ConvPoolShape s = pool_shape(shape(op.x), shape(op.dy), op.kernel, op.planar);
  return one_call(conv_relu_pool_grad_weights, op, {.shape = s}, pool_workspace(s));
}

std::unique_ptr<Kernel> prepare(const ConvReluPoolGradX& op, const Shapes& shape) {
  const ConvPoolShape s = pool_shape(shape(op.dx), shape(op.dy), op.kernel, /*planar=*/false);
  return one_call(conv_relu_pool_grad_input, op, {.shape = s}, pool_workspace(s));
}

namespace {
template <class Op>
std::unique_ptr<Kernel> prepare_by_algorithm(const Op& op, const Shapes& shape) {
  return shape.convolutions().prepare(conv_task(op, shape.values()), shape.values());
}
}  // namespace

std::unique_ptr<Kernel> prepare(const Conv2d& op, const Shapes& shape) { return prepare_by_algorithm(op, shape); }
std::unique_ptr<Kernel> prepare(const Conv2dGradW& op, const Shapes& shape) { return prepare_by_algorithm(op, shape); }
std::unique_ptr<Kernel> prepare(const Conv2dGradX& op, const Shapes& shape) { return prepare_by_algorithm(op, shape); }

namespace {
MaxPoolShape max_pool_shape(const Shape& x, const Shape& y, int kernel, int stride, int pad) {
  return {.n = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .out_height = y[1],
          .out_width = y[2],
          .kernel = kernel,
          .stride = stride,
          .pad = pad};
}
AveragePoolShape average_shape(const Shape& x) { return {x[0], x[1] * x[2], x[3]}; }
BatchNormShape norm_shape(const Shape& x, double eps) {
  const int64_t channels = x[x.rank() - 1];
  return {x.numel() / channels, channels, eps};
}
}  // namespace

std::unique_ptr<Kernel> prepare(const MaxPool& op, const Shapes& shape) {
  const MaxPoolShape s = max_pool_shape(shape(op.x), shape(op.y), op.kernel, op.stride, op.pad);
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, s](const Operands& at, float*) {
      return [s, x = at.at<T>(op.x), y = at.at<T>(op.y), argmax = at.u8(op.argmax)] { max_pool(s, x, y, argmax); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const MaxPoolGrad& op, const Shapes& shape) {
  const MaxPoolShape s = max_pool_shape(shape(op.dx), shape(op.dy), op.kernel, op.stride, op.pad);
  return by_type(shape.bf16(op.dx), [&]<class T>(T) {
    return make_kernel([op, s](const Operands& at, float*) {
      return [s, dy = at.at<T>(op.dy), argmax = at.u8(op.argmax), dx = at.at<T>(op.dx)] {
        max_pool_grad(s, dy, argmax, dx);
      };
    });
  });
}

std::unique_ptr<Kernel> prepare(const AveragePool& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, s = average_shape(shape(op.x))](const Operands& at, float*) {
      return [s, x = at.at<T>(op.x), y = at.at<T>(op.y)] { average_pool(s, x, y); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const AveragePoolGrad& op, const Shapes& shape) {
  return by_type(shape.bf16(op.dx), [&]<class T>(T) {
    return make_kernel([op, s = average_shape(shape(op.dx))](const Operands& at, float*) {
      return [s, dy = at.at<T>(op.dy), dx = at.at<T>(op.dx)] { average_pool_grad(s, dy, dx); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const BatchNorm& op, const Shapes& shape) {
  const BatchNormShape s = norm_shape(shape(op.x), op.eps);
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel(batch_norm_workspace(s), [op, s](const Operands& at, float* workspace) {
      const bool train = op.mean != kNone;
      BatchNormArgs<T> args = at.put(op, BatchNormArgs<T>{.shape = s, .relu = op.relu, .workspace = workspace});
      args.mean = at.f32(train ? op.mean : op.running_mean);
      args.var = at.f32(train ? op.var : op.running_var);
      return [args, train] { train ? batch_norm(args) : batch_norm_result(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const BatchNormGrad& op, const Shapes& shape) {
  const BatchNormShape s = norm_shape(shape(op.dx), op.eps);
  return by_type(shape.bf16(op.dx), [&]<class T>(T) {
    return one_call<BatchNormGradArgs<T>>(batch_norm_grad, op, {.shape = s}, batch_norm_workspace(s));
  });
}

namespace {
LayerNormShape layer_norm_shape(const Shape& x) { return {x.rows(), x.columns()}; }
}  // namespace

std::unique_ptr<Kernel> prepare(const LayerNorm& op, const Shapes& shape) {
  const LayerNormShape s = layer_norm_shape(shape(op.x));
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<LayerNormArgs<T>>(layer_norm, op, {.shape = s, .eps = op.eps}, layer_norm_workspace(s));
  });
}

std::unique_ptr<Kernel> prepare(const LayerNormGrad& op, const Shapes& shape) {
  const LayerNormShape s = layer_norm_shape(shape(op.x));
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<LayerNormGradArgs<T>>(layer_norm_grad, op, {.shape = s}, layer_norm_workspace(s));
  });
}

std::unique_ptr<Kernel> prepare(const Activate& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.y).stored()](const Operands& at, float*) {
      return [kind = op.activation, n, x = at.at<T>(op.x), y = at.at<T>(op.y)] { activate(kind, x, y, n); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const ActivationGrad& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.dx).stored()](const Operands& at, float*) {
      return [kind = op.activation, n, x = at.at<T>(op.x), dy = at.at<T>(op.dy), dx = at.at<T>(op.dx)] {
        activation_grad(kind, x, dy, dx, n);
      };
    });
  });
}

namespace {
/// Rows of `features` elements between strides; what `to` has beyond them is written as zeros.
template <class T>
void copy_rows(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t features) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    std::copy_n(from, features, to);
    std::fill(to + features, to + to_stride, T(0));
  }
}
}  // namespace

std::unique_ptr<Kernel> prepare(const Flatten& op, const Shapes& shape) {
  const int64_t rows = shape(op.y)[0], features = shape(op.y)[1];
  return make_kernel([=](const Operands& at, float*) {
    return [=, x = at.f32(op.x), y = at.f32(op.y)] { copy_rows(x, features, y, padded(features), rows, features); };
  });
}

std::unique_ptr<Kernel> prepare(const FlattenGrad& op, const Shapes& shape) {
  const int64_t rows = shape(op.dy)[0], features = shape(op.dy)[1];
  return make_kernel([=](const Operands& at, float*) {
    return
        [=, dy = at.f32(op.dy), dx = at.f32(op.dx)] { copy_rows(dy, padded(features), dx, features, rows, features); };
  });
}

namespace {
/// Of Tokens and its gradient: `x` is the operand without class token.
TokensShape tokens_shape(const Shape& x, const Shape& y) {
  return {.n = y[0], .tokens = y[1], .columns = y[2], .x_stride = x.stride()};
}
}  // namespace

std::unique_ptr<Kernel> prepare(const Tokens& op, const Shapes& shape) {
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return one_call<TokensArgs<T>>(tokens, op, {.shape = tokens_shape(shape(op.x), shape(op.y))});
  });
}

std::unique_ptr<Kernel> prepare(const TokensGrad& op, const Shapes& shape) {
  return by_type(shape.bf16(op.dy), [&]<class T>(T) {
    return one_call<TokensGradArgs<T>>(tokens_grad, op, {.shape = tokens_shape(shape(op.dx), shape(op.dy))});
  });
}

std::unique_ptr<Kernel> prepare(const TakeToken& op, const Shapes& shape) {
  const Shape x = shape(op.x);
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return make_kernel([op, x](const Operands& at, float*) {
      return [x, from = at.at<T>(op.x), to = at.at<T>(op.y)] {
        copy_rows(from, x[1] * x.stride(), to, x.stride(), x[0], x[2]);
      };
    });
  });
}

std::unique_ptr<Kernel> prepare(const TakeTokenGrad& op, const Shapes& shape) {
  const Shape x = shape(op.dx);
  return by_type(shape.bf16(op.dx), [&]<class T>(T) {
    return make_kernel([op, x](const Operands& at, float*) {
      return [x, from = at.at<T>(op.dy), to = at.at<T>(op.dx)] {
        copy_rows(from, x.stride(), to, x[1] * x.stride(), x[0], x[2]);
      };
    });
  });
}

std::unique_ptr<Kernel> prepare(const Add& op, const Shapes& shape) {
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.y).stored()](const Operands& at, float*) {
      return [n, a = at.at<T>(op.a), b = at.at<T>(op.b), y = at.at<T>(op.y)] { add(a, b, y, n); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const SoftmaxCrossEntropy& op, const Shapes& shape) {
  check(op.loss_scale == kNone, "a loss scale on a CPU, which does not compute in fp16");
  const int64_t n = shape(op.logits)[0], classes = shape(op.logits)[1], stored = shape(op.logits).stored();
  const SoftmaxCrossEntropyArgs numbers{
      .n = n,
      .classes = classes,
      .label_smoothing = op.label_smoothing,
      .gradient_scale = static_cast<float>(1 / (static_cast<double>(n) * op.predivide))};
  return make_kernel([=](const Operands& at, float*) {
    return [=, args = at.put(op, numbers)] {
      softmax_cross_entropy(args);
      if (args.dlogits == nullptr) return;
      // A loss can overflow while its gradient is finite: the step must be skipped all the same.
      for (int64_t i = 0; i < n; ++i)
        if (!std::isfinite(args.losses[i])) std::fill_n(args.dlogits, stored, std::numeric_limits<float>::quiet_NaN());
    };
  });
}

std::unique_ptr<Kernel> prepare(const Cast& op, const Shapes& shape) {
  return make_kernel([op, type = shape.dtype(op.y), n = shape(op.x).stored()](const Operands& at, float*) {
    return [=, x = at.f32(op.x), y = at.at<std::byte>(op.y)] {
      if (type == DType::bf16)
        convert(x, reinterpret_cast<uint16_t*>(y), n);
      else if (type == DType::f16)
        convert_to_f16(x, reinterpret_cast<uint16_t*>(y), n);
      else
        std::memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
    };
  });
}

}  // namespace ct::cpu
