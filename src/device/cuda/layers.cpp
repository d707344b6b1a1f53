#include "device/cuda/layers.h"

#include "device/cuda/one_launch.h"
#include "graph/edit_draw.h"
#include "kernels/augment.h"
#include "kernels/batch_norm.h"
#include "kernels/bias.h"
#include "kernels/conv_relu_pool.h"
#include "kernels/edit.h"
#include "kernels/elementwise.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/patches.h"
#include "kernels/pool.h"
#include "kernels/softmax_cross_entropy.h"
#include "kernels/tokens.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

/// Pieces of a kernel's workspace, each where libraries want it.
class Carver {
 public:
  explicit Carver(std::byte* begin) : at_(reinterpret_cast<uintptr_t>(begin)) {}
  static size_t room(size_t bytes) { return bytes == 0 ? 0 : bytes + kAlign; }
  void* take(size_t bytes) {
    if (bytes == 0) return nullptr;
    const uintptr_t begin = (at_ + kAlign - 1) / kAlign * kAlign;
    at_ = begin + bytes;
    return reinterpret_cast<void*>(begin);
  }
  template <class T>
  T* take(size_t bytes) {
    return static_cast<T*>(take(bytes));
  }

 private:
  static constexpr size_t kAlign = 256;
  uintptr_t at_;
};

/// bind(operands, Carver) returns the launch function.
template <class Bind>
std::unique_ptr<Kernel> make_kernel(const Context& in, std::initializer_list<size_t> workspaces, Bind bind) {
  size_t room = 0;
  for (size_t bytes : workspaces) room += Carver::room(bytes);
  auto carve = [bind = std::move(bind)](const Operands& at, std::byte* workspace) mutable {
    return bind(at, Carver(workspace));
  };
  return std::make_unique<CudaKernel<decltype(carve)>>(in.label(), room, std::move(carve));
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Edit& op, const Context& in) {
  const Shape s = in.shape(op.out);
  const k::EditArgs args{
      .n = s[0], .channels = s[1], .height = s[2], .width = s[3], .stride = op.of, .count = in.shape(op.images)[0]};
  return make_plain_kernel(in.label(), [=, fill = std::make_shared<Memory>(in.backend.upload(op.fill)),
                                        stream = in.stream()](const Operands& at) {
    k::EditArgs a = at.put(op, args);
    a.draws += op.which;
    a.fill = reinterpret_cast<const uint8_t*>(fill->data());
    return [a, stream, fill] { CT_CUDA(k::edit(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const Augment& op, const Context& in) {
  const Shape s = in.shape(op.out);
  const k::AugmentArgs args{.n = s[0],
                            .channels = s[1],
                            .height = s[2],
                            .width = s[3],
                            .planar = true,
                            .type = type_of(in.dtype(op.out)),
                            .count = in.shape(op.images)[0]};
  const auto scale = std::make_shared<Memory>(in.backend.upload(op.scale));
  const auto shift = std::make_shared<Memory>(in.backend.upload(op.shift));
  return make_plain_kernel(in.label(), [=, stream = in.stream()](const Operands& at) {
    k::AugmentArgs a = at.put(op, args);
    a.scale = reinterpret_cast<const float*>(scale->data());
    a.shift = reinterpret_cast<const float*>(shift->data());
    return [a, stream, scale, shift] { CT_CUDA(k::augment(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const Patches& op, const Context& in) {
  const Shape& x = in.shape(op.images);
  return one_launch(in, k::patches, op,
                    {.shape = {.type = type_of(in.dtype(op.y)),
                               .n = x[0],
                               .channels = x[1],
                               .height = x[2],
                               .width = x[3],
                               .patch = op.patch,
                               .down = x[2] / op.patch,
                               .across = x[3] / op.patch,
                               .y_stride = in.shape(op.y).stride()},
                     .shift = op.shift});
}

namespace {

k::ConvReluPoolShape pool_shape(const Context& in, ValueId x, ValueId y, int kernel, bool planar) {
  const Shape &from = in.shape(x), &to = in.shape(y);
  return {.n = from[0],
          .in_channels = planar ? from[1] : from[3],
          .height = planar ? from[2] : from[1],
          .width = planar ? from[3] : from[2],
          .out_channels = to[3],
          .kernel = kernel,
          .planar = planar,
          .type = type_of(in.dtype(x))};
}

ConvolutionShape conv_shape(const Context& in, ValueId x, ValueId y, int kernel, int stride, int pad, bool planar) {
  return convolution_shape(in.shape(x), in.shape(y), kernel, stride, pad, planar, in.dtype(x));
}

int64_t channels(const Shape& s) { return s[s.rank() - 1]; }
int64_t rows(const Shape& s) { return s.numel() / channels(s); }

}  // namespace

std::unique_ptr<Kernel> prepare(const ConvReluPool& op, const Context& in) {
  return one_launch(in, k::conv_relu_pool, op, {.shape = pool_shape(in, op.x, op.y, op.kernel, op.planar)});
}

std::unique_ptr<Kernel> prepare(const ConvReluPoolGradW& op, const Context& in) {
  const k::ConvReluPoolShape s = pool_shape(in, op.x, op.dy, op.kernel, op.planar);
  return one_launch(in, k::conv_relu_pool_grad_weights, op, {.shape = s}, k::conv_relu_pool_grad_weights_workspace(s));
}

std::unique_ptr<Kernel> prepare(const ConvReluPoolGradX& op, const Context& in) {
  return one_launch(in, k::conv_relu_pool_grad_input, op,
                    {.shape = pool_shape(in, op.dx, op.dy, op.kernel, /*planar=*/false)});
}

std::unique_ptr<Kernel> prepare_both(const ConvReluPoolGradW& w, const ConvReluPoolGradX& x, const Context& in) {
  const k::ConvReluPoolShape s = pool_shape(in, w.x, w.dy, w.kernel, w.planar);
  const bool one_layer = in.shape(w.x) == in.shape(x.dx) && w.kernel == x.kernel;
  if (!one_layer || k::conv_relu_pool_grad_weights_workspace(s) > 0) return nullptr;
  return make_plain_kernel(in.label(), [=, stream = in.stream()](const Operands& at) {
    const k::ConvReluPoolGradArgs a{.weights = at.put(w, k::ConvReluPoolGradWArgs{.shape = s}),
                                    .input = at.put(x, k::ConvReluPoolGradXArgs{.shape = s})};
    return [=] { CT_CUDA(k::conv_relu_pool_grad(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const Conv2d& op, const Context& in) {
  const Shape& y = in.shape(op.y);
  const std::shared_ptr<Convolution> conv =
      in.backend.plan(ConvolutionPass::forward, conv_shape(in, op.x, op.y, op.kernel, op.stride, op.pad, op.planar));
  k::BiasArgs bias{
      .type = type_of(in.dtype(op.y)), .rows = rows(y), .channels = channels(y), .stride = channels(y), .relu = false};
  const size_t bytes = conv->workspace_bytes();
  return make_kernel(in, {bytes}, [=, stream = in.stream()](const Operands& at, Carver carver) mutable {
    void* workspace = carver.take(bytes);
    bias.x = bias.y = at.at(op.y);
    bias.b = at.f32(op.b);
    return [=, x = at.at(op.x), w = at.at(op.w), y = at.at(op.y)] {
      conv->launch(x, w, y, workspace);
      if (bias.b != nullptr) CT_CUDA(k::bias(bias, stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const Conv2dGradW& op, const Context& in) {
  const Shape& y = in.shape(op.dy);
  const std::shared_ptr<Convolution> conv = in.backend.plan(
      ConvolutionPass::grad_weights, conv_shape(in, op.x, op.dy, op.kernel, op.stride, op.pad, op.planar));
  k::BiasGradArgs bias{
      .type = type_of(in.dtype(op.dy)), .rows = rows(y), .channels = channels(y), .stride = channels(y)};
  const size_t bytes = conv->workspace_bytes();
  const size_t bias_bytes = op.db == kNone ? 0 : k::bias_grad_workspace_bytes(bias.rows, bias.channels);
  return make_kernel(in, {bytes, bias_bytes}, [=, stream = in.stream()](const Operands& at, Carver carver) mutable {
    void* workspace = carver.take(bytes);
    bias.dy = at.at(op.dy);
    bias.db = at.f32(op.db);
    bias.workspace = carver.take<float>(bias_bytes);
    return [=, x = at.at(op.x), dw = at.at(op.dw), dy = at.at(op.dy)] {
      conv->launch(x, dw, dy, workspace);
      if (bias.db != nullptr) CT_CUDA(k::bias_grad(bias, stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const Conv2dGradX& op, const Context& in) {
  const std::shared_ptr<Convolution> conv = in.backend.plan(
      ConvolutionPass::grad_input, conv_shape(in, op.dx, op.dy, op.kernel, op.stride, op.pad, /*planar=*/false));
  const size_t bytes = conv->workspace_bytes();
  return make_kernel(in, {bytes}, [=](const Operands& at, Carver carver) {
    return [=, workspace = carver.take(bytes), dx = at.at(op.dx), w = at.at(op.w), dy = at.at(op.dy)] {
      conv->launch(dx, w, dy, workspace);
    };
  });
}

/// What a pooling and its gradient share, but for operands; `image` is what the windows lie in.
template <class Args, class Pooling>
Args pool_args(const Pooling& op, ValueId image, const Context& in) {
  const Shape& x = in.shape(image);
  return {.type = type_of(in.dtype(image)),
          .n = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .kernel = op.kernel,
          .stride = op.stride,
          .pad = op.pad};
}

std::unique_ptr<Kernel> prepare(const MaxPool& op, const Context& in) {
  return one_launch(in, k::max_pool, op, pool_args<k::MaxPoolArgs>(op, op.x, in));
}

std::unique_ptr<Kernel> prepare(const MaxPoolGrad& op, const Context& in) {
  return one_launch(in, k::max_pool_grad, op, pool_args<k::MaxPoolGradArgs>(op, op.dx, in));
}

std::unique_ptr<Kernel> prepare(const AveragePool& op, const Context& in) {
  const Shape& x = in.shape(op.x);
  return one_launch(in, k::average_pool, op,
                    {.type = type_of(in.dtype(op.x)),
                     .n = x[0],
                     .pixels = x[1] * x[2],
                     .channels = x[3],
                     .y_stride = round_up(x[3], kRowPad)});
}

std::unique_ptr<Kernel> prepare(const AveragePoolGrad& op, const Context& in) {
  const Shape& x = in.shape(op.dx);
  return one_launch(in, k::average_pool_grad, op,
                    {.type = type_of(in.dtype(op.dx)),
                     .n = x[0],
                     .pixels = x[1] * x[2],
                     .channels = x[3],
                     .dy_stride = round_up(x[3], kRowPad)});
}

namespace {
k::BatchNormShape norm_shape(const Context& in, ValueId x) {
  const Shape& s = in.shape(x);
  return {rows(s), channels(s), type_of(in.dtype(x))};
}
}  // namespace

std::unique_ptr<Kernel> prepare(const BatchNorm& op, const Context& in) {
  const k::BatchNormArgs args{
      .shape = norm_shape(in, op.x), .eps = op.eps, .relu = op.relu, .tickets = in.backend.tickets()};
  const size_t bytes = k::batch_norm_workspace(args.shape);
  return make_kernel(in, {bytes}, [=, stream = in.stream()](const Operands& at, Carver carver) {
    const bool train = op.mean != kNone;
    k::BatchNormArgs a = at.put(op, args);
    a.mean = at.f32(train ? op.mean : op.running_mean);
    a.var = at.f32(train ? op.var : op.running_var);
    a.workspace = carver.take(bytes);
    return [=] { CT_CUDA(train ? k::batch_norm(a, stream) : k::batch_norm_result(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const BatchNormGrad& op, const Context& in) {
  const k::BatchNormShape s = norm_shape(in, op.dx);
  return one_launch(in, k::batch_norm_grad, op, {.shape = s, .eps = op.eps, .tickets = in.backend.tickets()},
                    k::batch_norm_workspace(s));
}

std::unique_ptr<Kernel> prepare_both(const Add& sum, const BatchNormGrad& op, const Context& in) {
  if (op.y == kNone || op.dresidual == kNone || op.dw == kNone) return nullptr;
  const k::BatchNormGradArgs args{.shape = norm_shape(in, op.dx), .eps = op.eps, .tickets = in.backend.tickets()};
  const size_t bytes = k::batch_norm_workspace(args.shape);
  return make_kernel(in, {bytes}, [=, stream = in.stream()](const Operands& at, Carver carver) {
    k::BatchNormGradArgs a = at.put(op, args);
    a.dy = at.at(sum.a);
    a.more_dy = at.at(sum.b);
    a.workspace = carver.take(bytes);
    return [=] { CT_CUDA(k::batch_norm_grad(a, stream)); };
  });
}

/// LayerNormArgs or LayerNormGradArgs for the rows of x.
template <class Args>
static Args norm_args(const Context& in, ValueId x) {
  const Shape& s = in.shape(x);
  Args args = {};
  args.type = type_of(in.dtype(x));
  args.rows = s.rows(), args.columns = s.columns(), args.stride = s.stride();
  return args;
}

static k::LayerNormArgs norm_args(const LayerNorm& op, const Context& in) {
  auto args = norm_args<k::LayerNormArgs>(in, op.y);
  args.eps = op.eps;
  return args;
}

std::unique_ptr<Kernel> prepare(const LayerNorm& op, const Context& in) {
  return one_launch(in, k::layer_norm, op, norm_args(op, in));
}

std::unique_ptr<Kernel> prepare(const LayerNormGrad& op, const Context& in) {
  const auto args = norm_args<k::LayerNormGradArgs>(in, op.x);
  return one_launch(in, k::layer_norm_grad, op, args, k::layer_norm_grad_workspace(args.rows, args.columns));
}

/// Adds dropout, if the kernel can apply it to these rows.
template <class Args>
static bool add_mask(Args& args, const Dropout& drop) {
  args.mask = {.number = drop.number, .below = keep_below(drop.p), .scale = static_cast<float>(1 / (1 - drop.p))};
  return k::drops_elements(args.type, args.columns, args.stride);
}

static const DropoutKey* key_at(const Operands& at, const Dropout& drop) {
  return reinterpret_cast<const DropoutKey*>(at.at(drop.key));
}

std::unique_ptr<Kernel> prepare_both(const Dropout& drop, const LayerNorm& op, const Context& in) {
  k::LayerNormArgs args = norm_args(op, in);
  if (op.residual == kNone || !add_mask(args, drop)) return nullptr;
  return make_kernel(in, {}, [=, stream = in.stream()](const Operands& at, Carver) {
    k::LayerNormArgs a = at.put(op, args);
    a.x = at.at(drop.x);
    a.mask.key = key_at(at, drop);
    return [=] { CT_CUDA(k::layer_norm(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare_both(const LayerNormGrad& op, const Dropout& drop, const Context& in) {
  auto args = norm_args<k::LayerNormGradArgs>(in, op.x);
  if (op.dsum == kNone || !add_mask(args, drop)) return nullptr;
  const size_t bytes = k::layer_norm_grad_workspace(args.rows, args.columns);
  return make_kernel(in, {bytes}, [=, stream = in.stream()](const Operands& at, Carver carver) {
    k::LayerNormGradArgs a = at.put(op, args);
    a.mask.key = key_at(at, drop);
    a.dropped = at.at(drop.y);
    a.workspace = carver.take<float>(bytes);
    return [=] { CT_CUDA(k::layer_norm_grad(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const Activate& op, const Context& in) {
  return one_launch(in, k::activate, op,
                    {.type = type_of(in.dtype(op.y)), .activation = op.activation, .n = in.shape(op.y).stored()});
}

std::unique_ptr<Kernel> prepare(const ActivationGrad& op, const Context& in) {
  return one_launch(in, k::activation_grad, op,
                    {.type = type_of(in.dtype(op.dx)), .activation = op.activation, .n = in.shape(op.dx).stored()});
}

std::unique_ptr<Kernel> prepare(const Flatten& op, const Context& in) {
  const Shape& y = in.shape(op.y);
  return one_launch(in, k::copy_rows, op,
                    {.type = type_of(in.dtype(op.y)),
                     .rows = y[0],
                     .features = y[1],
                     .x_stride = y[1],
                     .y_stride = round_up(y[1], kRowPad)});
}

std::unique_ptr<Kernel> prepare(const FlattenGrad& op, const Context& in) {
  const Shape& dy = in.shape(op.dy);
  return one_launch(in, k::copy_rows, Flatten{.x = op.dy, .y = op.dx},
                    {.type = type_of(in.dtype(op.dy)),
                     .rows = dy[0],
                     .features = dy[1],
                     .x_stride = round_up(dy[1], kRowPad),
                     .y_stride = dy[1]});
}

std::unique_ptr<Kernel> prepare(const Tokens& op, const Context& in) {
  const Shape& y = in.shape(op.y);
  return one_launch(in, k::tokens, op,
                    {.type = type_of(in.dtype(op.y)),
                     .n = y[0],
                     .tokens = y[1],
                     .columns = y[2],
                     .x_stride = in.shape(op.x).stride(),
                     .stride = y.stride()});
}

std::unique_ptr<Kernel> prepare(const TokensGrad& op, const Context& in) {
  const Shape& dy = in.shape(op.dy);
  return one_launch(in, k::tokens_grad, op,
                    {.type = type_of(in.dtype(op.dy)),
                     .n = dy[0],
                     .tokens = dy[1],
                     .columns = dy[2],
                     .x_stride = in.shape(op.dx).stride(),
                     .stride = dy.stride()});
}

/// Rows of whole images on the one side, of single tokens on the other.
std::unique_ptr<Kernel> prepare(const TakeToken& op, const Context& in) {
  const Shape& x = in.shape(op.x);
  return one_launch(in, k::copy_rows, op,
                    {.type = type_of(in.dtype(op.y)),
                     .rows = x[0],
                     .features = x[2],
                     .x_stride = x[1] * x.stride(),
                     .y_stride = x.stride()});
}

std::unique_ptr<Kernel> prepare(const TakeTokenGrad& op, const Context& in) {
  const Shape& dx = in.shape(op.dx);
  return one_launch(in, k::copy_rows, Flatten{.x = op.dy, .y = op.dx},
                    {.type = type_of(in.dtype(op.dx)),
                     .rows = dx[0],
                     .features = dx[2],
                     .x_stride = dx.stride(),
                     .y_stride = dx[1] * dx.stride()});
}

namespace {

/// The three passes of a linear layer, by our own kernels where weights are few (they lie in L2, and a library's launch
/// is not faster), else by the library. What decides is the shape alone.
constexpr int64_t kOwnWeights = 1 << 16, kOwnRows = 1024;

LinearShape linear_shape(const Context& in, ValueId x, ValueId y, bool relu = false, bool bias = true) {
  return {.rows = in.shape(x).rows(),
          .in = in.shape(x).columns(),
          .out = in.shape(y).columns(),
          .dtype = in.dtype(x),
          .y_dtype = in.dtype(y),
          .relu = relu,
          .bias = bias};
}

bool own(const LinearShape& s) { return s.in * s.out <= kOwnWeights && s.rows <= kOwnRows; }

/// What is launched after a product.

/// `result`: what is written, its type, rows and their length. `after`: what follows, if anything does.
struct LinearResult {
  ValueId id;
  DType dtype;
  int64_t rows, length;
};
std::unique_ptr<Kernel> by_library(
    const Context& in, LinearPass pass, const LinearShape& s, const LinearResult& result,
    std::function<LinearOperands(const Operands&)> operands,
    std::function<After(const Operands&)> after = [](const Operands&) { return After(); }) {
  const std::shared_ptr<Matmul> matmul = in.backend.plan(pass, s);
  const size_t bytes = matmul->workspace_bytes();
  return make_kernel(in, {bytes}, [=, stream = in.stream()](const Operands& at, Carver carver) {
    // Libraries leave the pads as they are.
    const k::ZeroPadsArgs pads{.type = type_of(result.dtype),
                               .rows = result.rows,
                               .features = result.length,
                               .stride = round_up(result.length, kRowPad),
                               .y = at.at(result.id)};
    return [=, args = operands(at), workspace = carver.take(bytes), next = after(at)] {
      matmul->launch(args, workspace);
      CT_CUDA(k::zero_pads(pads, stream));
      if (next) next();
    };
  });
}

k::LinearArgs linear_args(const LinearShape& s) {
  return {.type = type_of(s.dtype),
          .y_type = type_of(s.y_dtype),
          .n = s.rows,
          .in = s.in,
          .out = s.out,
          .x_stride = round_up(s.in, kRowPad),
          .w_stride = round_up(s.in, kRowPad),
          .y_stride = round_up(s.out, kRowPad),
          .relu = s.relu};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Linear& op, const Context& in) {
  return prepare(op, in,
                 [=, stream = in.stream(), type = type_of(in.dtype(op.y)),
                  n = in.shape(op.y).stored()](const Operands& at) -> After {
                   if (is_fused(op.activation)) return {};
                   const k::ActivateArgs args{
                       .type = type, .activation = op.activation, .n = n, .x = at.at(sums_of(op)), .y = at.at(op.y)};
                   return [=] { CT_CUDA(k::activate(args, stream)); };
                 });
}

std::unique_ptr<Kernel> prepare(const Linear& op, const Context& in,
                                const std::function<After(const Operands&)>& activate) {
  const LinearShape s = linear_shape(in, op.x, op.y, op.activation == Activation::relu, op.b != kNone);
  const ValueId sums = sums_of(op);
  if (!own(s))
    return by_library(
        in, LinearPass::forward, s, {sums, s.y_dtype, s.rows, s.out},
        [=](const Operands& at) {
          return LinearOperands{.x = at.at(op.x), .w = at.at(op.w), .y = at.at(sums), .b = at.f32(op.b)};
        },
        activate);
  const k::LinearArgs args = linear_args(s);
  return make_plain_kernel(in.label(), [=, stream = in.stream()](const Operands& at) {
    k::LinearArgs a = at.put(op, args);
    a.y = at.at(sums);
    return [=, next = activate(at)] {
      CT_CUDA(k::linear(a, stream));
      if (next) next();
    };
  });
}

namespace {

k::LinearGradXArgs grad_x_args(const LinearShape& s) {
  return {.type = type_of(s.dtype),
          .y_type = type_of(s.y_dtype),
          .n = s.rows,
          .in = s.in,
          .out = s.out,
          .w_stride = round_up(s.in, kRowPad),
          .dy_stride = round_up(s.out, kRowPad),
          .dx_stride = round_up(s.in, kRowPad)};
}
k::LinearGradWArgs grad_w_args(const LinearShape& s) {
  return {.type = type_of(s.dtype),
          .y_type = type_of(s.y_dtype),
          .n = s.rows,
          .in = s.in,
          .out = s.out,
          .x_stride = round_up(s.in, kRowPad),
          .dy_stride = round_up(s.out, kRowPad),
          .dw_stride = round_up(s.in, kRowPad)};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const LinearGradX& op, const Context& in) {
  const LinearShape s = linear_shape(in, op.dx, op.dy);
  if (own(s)) return one_launch(in, k::linear_grad_input, op, grad_x_args(s));
  return by_library(in, LinearPass::grad_input, s, {op.dx, s.dtype, s.rows, s.in}, [op](const Operands& at) {
    return LinearOperands{.x = at.at(op.dx), .w = at.at(op.w), .y = at.at(op.dy), .b = nullptr};
  });
}

std::unique_ptr<Kernel> prepare(const LinearGradW& op, const Context& in) {
  const LinearShape s = linear_shape(in, op.x, op.dy, /*relu=*/false, op.db != kNone);
  if (own(s)) return one_launch(in, k::linear_grad_weights, op, grad_w_args(s));
  return by_library(in, LinearPass::grad_weights, s, {op.dw, DType::f32, s.out, s.in}, [op](const Operands& at) {
    return LinearOperands{.x = at.at(op.x), .w = at.at(op.dw), .y = at.at(op.dy), .b = at.f32(op.db)};
  });
}

std::unique_ptr<Kernel> prepare_both(const LinearGradW& w, const LinearGradX& x, ValueId dz, const Context& in) {
  const LinearShape s = linear_shape(in, w.x, w.dy);
  if (!own(s) || in.shape(w.x) != in.shape(x.dx)) return nullptr;
  return make_plain_kernel(in.label(), [=, stream = in.stream()](const Operands& at) {
    const k::LinearGradArgs a{
        .weights = at.put(w, grad_w_args(s)), .input = at.put(x, grad_x_args(s)), .dz = at.at(dz)};
    return [=] { CT_CUDA(k::linear_grad(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const Add& op, const Context& in) {
  return one_launch(in, k::add, op, {.type = type_of(in.dtype(op.y)), .n = in.shape(op.y).stored()});
}

namespace {
k::SoftmaxCrossEntropyArgs loss_args(const SoftmaxCrossEntropy& op, const Context& in) {
  const Shape& s = in.shape(op.logits);
  return {.n = s[0],
          .classes = s[1],
          .stride = round_up(s[1], kRowPad),
          .label_smoothing = op.label_smoothing,
          .predivide = op.predivide,
          .tickets = in.backend.tickets()};
}
}  // namespace

std::unique_ptr<Kernel> prepare(const SoftmaxCrossEntropy& op, const Context& in) {
  return one_launch(in, k::softmax_cross_entropy, op, loss_args(op, in));
}

std::unique_ptr<Kernel> prepare_both(const Linear& linear, const SoftmaxCrossEntropy& loss, const Context& in) {
  const LinearShape s = linear_shape(in, linear.x, linear.y, linear.activation == Activation::relu, linear.b != kNone);
  const bool few = s.rows <= k::kLossRows && s.out <= k::kLossClasses;
  if (!own(s) || !few || !is_fused(linear.activation) || s.y_dtype != DType::f32) return nullptr;
  return make_plain_kernel(
      in.label(), [=, layer = linear_args(s), of_rows = loss_args(loss, in), stream = in.stream()](const Operands& at) {
        const k::LinearLossArgs a{.linear = at.put(linear, layer), .loss = at.put(loss, of_rows)};
        return [=] { CT_CUDA(k::linear_loss(a, stream)); };
      });
}

std::unique_ptr<Kernel> prepare(const Cast& op, const Context& in) {
  return one_launch(in, k::cast, op,
                    {.from = type_of(in.dtype(op.x)), .to = type_of(in.dtype(op.y)), .n = in.shape(op.x).stored()});
}

}  // namespace ct::cuda
