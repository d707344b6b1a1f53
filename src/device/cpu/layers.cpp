#include "device/cpu/layers.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "device/cpu/convolution.h"
#include "device/cpu/convolution_ways.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/augment.h"
#include "device/cpu/kernels/batch_norm.h"
#include "device/cpu/kernels/conv_relu_pool.h"
#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/max_pool.h"
#include "device/cpu/kernels/plain.h"
#include "device/cpu/kernels/softmax_cross_entropy.h"

namespace ct::cpu {

std::unique_ptr<Kernel> prepare(const Augment& op, const Shapes& shape) {
  return make_kernel([op, s = shape(op.out)](const Operands& at, float*) {
    return [op, s, images = at.u8(op.images), draws = at.i32(op.draws), out = at.f32(op.out)] {
      augment({s[0], s[1], s[2], s[3], images, draws, op.scale.data(), op.shift.data(), out});
    };
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
  return make_kernel(pool_workspace(s), [=](const Operands& at, float* workspace) {
    const ConvReluPoolArgs args{s, at.f32(op.x), at.f32(op.w), at.f32(op.b), at.f32(op.y), at.u8(op.argmax), workspace};
    return [=] { conv_relu_pool(args); };
  });
}

std::unique_ptr<Kernel> prepare(const ConvReluPoolGradW& op, const Shapes& shape) {
  const ConvPoolShape s = pool_shape(shape(op.x), shape(op.dy), op.kernel, op.planar);
  return make_kernel(pool_workspace(s), [=](const Operands& at, float* workspace) {
    const ConvReluPoolGradWArgs args{
        s, at.f32(op.x), at.f32(op.dy), at.u8(op.argmax), at.f32(op.dw), at.f32(op.db), workspace};
    return [=] { conv_relu_pool_grad_weights(args); };
  });
}

std::unique_ptr<Kernel> prepare(const ConvReluPoolGradX& op, const Shapes& shape) {
  const ConvPoolShape s = pool_shape(shape(op.dx), shape(op.dy), op.kernel, /*planar=*/false);
  return make_kernel(pool_workspace(s), [=](const Operands& at, float* workspace) {
    const ConvReluPoolGradXArgs args{s, at.f32(op.w), at.f32(op.dy), at.u8(op.argmax), at.f32(op.dx), workspace};
    return [=] { conv_relu_pool_grad_input(args); };
  });
}

namespace {
template <class Op>
std::unique_ptr<Kernel> prepare_by_way(const Op& op, const Shapes& shape) {
  return shape.ways().prepare(conv_task(op, shape.values()), shape.values());
}
}  // namespace

std::unique_ptr<Kernel> prepare(const Conv2d& op, const Shapes& shape) { return prepare_by_way(op, shape); }
std::unique_ptr<Kernel> prepare(const Conv2dGradW& op, const Shapes& shape) { return prepare_by_way(op, shape); }
std::unique_ptr<Kernel> prepare(const Conv2dGradX& op, const Shapes& shape) { return prepare_by_way(op, shape); }

namespace {
/// Calls with_type(float()) or with_type(uint16_t()), as elements in memory are.
template <class WithType>
std::unique_ptr<Kernel> by_type(bool bf16, WithType with_type) {
  return bf16 ? with_type(uint16_t()) : with_type(float());
}

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
      const BatchNormArgs<T> args{.shape = s,
                                  .x = at.at<T>(op.x),
                                  .residual = at.at<T>(op.residual),
                                  .w = at.f32(op.w),
                                  .b = at.f32(op.b),
                                  .y = at.at<T>(op.y),
                                  .relu = op.relu,
                                  .mean = at.f32(train ? op.mean : op.running_mean),
                                  .var = at.f32(train ? op.var : op.running_var),
                                  .workspace = workspace};
      return [args, train] { train ? batch_norm(args) : batch_norm_result(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const BatchNormGrad& op, const Shapes& shape) {
  const BatchNormShape s = norm_shape(shape(op.x), op.eps);
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel(batch_norm_workspace(s), [op, s](const Operands& at, float* workspace) {
      const BatchNormGradArgs<T> args{.shape = s,
                                      .x = at.at<T>(op.x),
                                      .y = at.at<T>(op.y),
                                      .dy = at.at<T>(op.dy),
                                      .w = at.f32(op.w),
                                      .b = at.f32(op.b),
                                      .mean = at.f32(op.mean),
                                      .var = at.f32(op.var),
                                      .dx = at.at<T>(op.dx),
                                      .dresidual = at.at<T>(op.dresidual),
                                      .dw = at.f32(op.dw),
                                      .db = at.f32(op.db),
                                      .batch_mean = at.f32(op.batch_mean),
                                      .batch_var = at.f32(op.batch_var),
                                      .workspace = workspace};
      return [args] { batch_norm_grad(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const Relu& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.y).stored()](const Operands& at, float*) {
      return [n, x = at.at<T>(op.x), y = at.at<T>(op.y)] { relu(x, y, n); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const ReluGrad& op, const Shapes& shape) {
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.dx).stored()](const Operands& at, float*) {
      return [n, y = at.at<T>(op.y), dy = at.at<T>(op.dy), dx = at.at<T>(op.dx)] { relu_grad(y, dy, dx, n); };
    });
  });
}

namespace {
/// Rows of `features` floats between strides; pads of `to` are written as zeros.
void copy_rows(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows, int64_t features) {
  for (int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    std::memcpy(to, from, static_cast<size_t>(features) * sizeof(float));
    for (int64_t i = features; i < to_stride; ++i) to[i] = 0;
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

std::unique_ptr<Kernel> prepare(const Linear& op, const Shapes& shape) {
  const LinearShape s{shape(op.x)[0], shape(op.x)[1], shape(op.y)[1]};
  return make_kernel([=](const Operands& at, float*) {
    const LinearArgs args{s, at.f32(op.x), at.f32(op.w), at.f32(op.b), at.f32(op.y), op.relu};
    return [=] { linear(args); };
  });
}

std::unique_ptr<Kernel> prepare(const LinearGradX& op, const Shapes& shape) {
  const LinearShape s{shape(op.dx)[0], shape(op.dx)[1], shape(op.dy)[1]};
  return make_kernel([=](const Operands& at, float*) {
    const LinearGradXArgs args{s, at.f32(op.w), at.f32(op.dy), at.f32(op.dx)};
    return [=] { linear_grad_input(args); };
  });
}

std::unique_ptr<Kernel> prepare(const LinearGradW& op, const Shapes& shape) {
  const LinearShape s{shape(op.x)[0], shape(op.x)[1], shape(op.dy)[1]};
  return make_kernel([=](const Operands& at, float*) {
    const LinearGradWArgs args{s, at.f32(op.x), at.f32(op.dy), at.f32(op.dw), at.f32(op.db)};
    return [=] { linear_grad_weights(args); };
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
  return make_kernel([=](const Operands& at, float*) {
    const SoftmaxCrossEntropyArgs args{.n = n,
                                       .classes = classes,
                                       .logits = at.f32(op.logits),
                                       .labels = at.i32(op.labels),
                                       .label_smoothing = op.label_smoothing,
                                       .gradient_scale = 1 / static_cast<float>(n),
                                       .losses = at.f32(op.losses),
                                       .dlogits = at.f32(op.dlogits),
                                       .predicted = at.i32(op.predicted),
                                       .larger = at.i32(op.larger)};
    return [=] {
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
