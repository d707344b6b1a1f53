// Convolution by oneDNN, versions 2.6 and 3. Weights stay in the program's own order; where the library prefers
// another one, they are reordered on the way in and their gradients on the way out.
#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"
#include "device/cpu/convolution.h"
#include "device/cpu/cpu_kernel.h"

namespace ct::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Dims = memory::dims;

/// How the library is asked: for its direct algorithm in the program's own order of activations or in an order of its
/// choice, or for Winograd's (Lavin & Gray, 2016), which wants activations in blocks of channels.
enum class Way { direct, blocked, winograd };
enum class Pass { forward, grad_x, grad_w };

/// The fastest way; what depends on the shape alone gives the same bits everywhere.
Way best_way(const ConvDims& d, DType type, Pass pass) {
  // F(4x4, 3x3) does a quarter of the multiplications but transforms the weights, which takes many tiles to pay.
  const int64_t in_image = ((d.out_h + 3) / 4) * ((d.out_w + 3) / 4), tiles = d.n * in_image;
  const bool fits = d.kernel == 3 && d.stride == 1 && std::min(d.in_channels, d.out_channels) >= 32;
  if (type == DType::f32 && fits && tiles >= (pass == Pass::grad_w || in_image == 1 ? 32 : 64)) return Way::winograd;
  // Rows of four pixels are too short for the kernels that work on our own order, and quickly reordered.
  return pass == Pass::forward && d.out_w <= 4 && d.in_channels >= 64 ? Way::blocked : Way::direct;
}

/// A convolution as the library is asked for it, and as the program stores its operands.
struct Problem {
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  memory::desc own_x, own_y, own_w, own_b;
  memory::desc x, y, w, b;
  Dims strides, pads;

  Problem(const ConvDims& d, DType x_type, DType y_type, DType w_type, bool bias, Way way) {
    const auto type = [](DType t) { return t == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32; };
    const Dims x_dims{d.n, d.in_channels, d.in_h, d.in_w}, y_dims{d.n, d.out_channels, d.out_h, d.out_w};
    const Dims w_dims{d.out_channels, d.in_channels, d.kernel, d.kernel};
    own_x = {x_dims, type(x_type), d.planar ? Tag::nchw : Tag::nhwc};
    own_y = {y_dims, type(y_type), Tag::nhwc};
    own_w = {w_dims, type(w_type), Tag::ohwi};
    if (bias) own_b = b = {{d.out_channels}, memory::data_type::f32, Tag::a};
    // With planar images the library falls back on its reference code, which is a thousand times slower.
    x = {x_dims, type(x_type), way == Way::direct ? Tag::nhwc : Tag::any};
    y = {y_dims, type(y_type), way == Way::direct ? Tag::nhwc : Tag::any};
    w = {w_dims, type(w_type), Tag::any};
    if (way == Way::winograd) algorithm = dnnl::algorithm::convolution_winograd;
    strides = {d.stride, d.stride};
    pads = {d.pad, d.pad};
  }
};

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

using Forward = dnnl::convolution_forward::primitive_desc;
using BackwardData = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;

#if DNNL_VERSION_MAJOR >= 3
Forward forward(const dnnl::engine& e, const Problem& p) {
  return {e,
          dnnl::prop_kind::forward_training,
          p.algorithm,
          p.x,
          p.w,
          p.b,
          p.y,
          p.strides,
          p.pads,
          p.pads,
          user_scratchpad()};
}
BackwardData backward_data(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {e, p.algorithm, p.x, p.w, p.y, p.strides, p.pads, p.pads, hint, user_scratchpad()};
}
BackwardWeights backward_weights(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {e, p.algorithm, p.x, p.w, p.b, p.y, p.strides, p.pads, p.pads, hint, user_scratchpad()};
}
#else
Forward forward(const dnnl::engine& e, const Problem& p) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  return {{kKind, p.algorithm, p.x, p.w, p.b, p.y, p.strides, p.pads, p.pads}, user_scratchpad(), e};
}
BackwardData backward_data(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {{p.algorithm, p.x, p.w, p.y, p.strides, p.pads, p.pads}, user_scratchpad(), e, hint};
}
BackwardWeights backward_weights(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {{p.algorithm, p.x, p.w, p.b, p.y, p.strides, p.pads, p.pads}, user_scratchpad(), e, hint};
}
#endif

/// The engine and stream of a prepared operation; cheap, and free of anything shared between threads. A primitive
/// descriptor keeps only a bare pointer to its engine, so both live as long as the kernel.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// An operand of a primitive: where the order that the library wants is not the program's own, it is reordered by way
/// of the workspace.
struct Operand {
  int argument;
  ValueId id;
  memory::desc own, wanted;
  bool result = false;
};

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

template <class Primitive>
std::unique_ptr<Kernel> prepared(std::shared_ptr<Library> library, const typename Primitive::primitive_desc& pd,
                                 std::vector<Operand> operands) {
  std::erase_if(operands, [](const Operand& o) { return o.id == kNone; });
  size_t workspace_bytes = aligned(pd.scratchpad_desc().get_size());
  for (const Operand& o : operands)
    if (o.own != o.wanted) workspace_bytes += aligned(o.wanted.get_size());
  return make_kernel(workspace_bytes, [=](const Operands& at, float* workspace) {
    using Arguments = std::unordered_map<int, memory>;
    std::byte* space = reinterpret_cast<std::byte*>(workspace);
    std::vector<std::pair<dnnl::primitive, Arguments>> calls, after;
    Arguments arguments{{DNNL_ARG_SCRATCHPAD, memory(pd.scratchpad_desc(), library->engine, space)}};
    space += aligned(pd.scratchpad_desc().get_size());
    for (const Operand& o : operands) {
      memory own(o.own, library->engine, at.at<std::byte>(o.id));
      if (o.own != o.wanted) {
        memory wanted(o.wanted, library->engine, space);
        space += aligned(o.wanted.get_size());
        const memory &from = o.result ? wanted : own, &to = o.result ? own : wanted;
        (o.result ? after : calls).push_back({dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
        own = wanted;
      }
      arguments.insert({o.argument, own});
    }
    calls.push_back({Primitive(pd), arguments});
    calls.insert(calls.end(), after.begin(), after.end());
    return [library, calls] {
      for (const auto& [primitive, arguments] : calls) primitive.execute(library->stream, arguments);
      library->stream.wait();
    };
  });
}

/// make(way), or directly where the library lacks that way.
template <class Make>
std::unique_ptr<Kernel> prepared_best(const char* what, Way way, Make make) {
  try {
    if (way != Way::direct) return make(way);
  } catch (const dnnl::error&) {
  }
  try {
    return make(Way::direct);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    fail(ExitCode::bug, "oneDNN cannot prepare ", what, ": ", e.what());
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv2d(const Conv2d& op, const std::vector<Value>& values) {
  const auto value = [&](ValueId id) -> const Value& { return values[static_cast<size_t>(id)]; };
  const Value &x = value(op.x), &y = value(op.y), &w = value(op.w);
  const ConvDims d = conv_dims(x.shape, y.shape, op.kernel, op.stride, op.pad, op.planar);
  return prepared_best("conv2d", best_way(d, x.dtype, Pass::forward), [&](Way way) {
    const auto library = std::make_shared<Library>();
    const Problem p(d, x.dtype, y.dtype, w.dtype, op.b != kNone, way);
    const Forward pd = forward(library->engine, p);
    return prepared<dnnl::convolution_forward>(library, pd,
                                               {{DNNL_ARG_SRC, op.x, p.own_x, pd.src_desc()},
                                                {DNNL_ARG_WEIGHTS, op.w, p.own_w, pd.weights_desc()},
                                                {DNNL_ARG_BIAS, op.b, p.own_b, p.own_b},
                                                {DNNL_ARG_DST, op.y, p.own_y, pd.dst_desc(), /*result=*/true}});
  });
}

std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradX& op, const std::vector<Value>& values) {
  const auto value = [&](ValueId id) -> const Value& { return values[static_cast<size_t>(id)]; };
  const Value &x = value(op.dx), &y = value(op.dy), &w = value(op.w);
  const ConvDims d = conv_dims(x.shape, y.shape, op.kernel, op.stride, op.pad, /*planar=*/false);
  return prepared_best("conv2d_grad_x", best_way(d, x.dtype, Pass::grad_x), [&](Way way) {
    const auto library = std::make_shared<Library>();
    const Problem p(d, x.dtype, y.dtype, w.dtype, /*bias=*/false, way);
    const BackwardData pd = backward_data(library->engine, p, forward(library->engine, p));
    return prepared<dnnl::convolution_backward_data>(
        library, pd,
        {{DNNL_ARG_DIFF_DST, op.dy, p.own_y, pd.diff_dst_desc()},
         {DNNL_ARG_WEIGHTS, op.w, p.own_w, pd.weights_desc()},
         {DNNL_ARG_DIFF_SRC, op.dx, p.own_x, pd.diff_src_desc(), /*result=*/true}});
  });
}

std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradW& op, const std::vector<Value>& values) {
  const auto value = [&](ValueId id) -> const Value& { return values[static_cast<size_t>(id)]; };
  const Value &x = value(op.x), &y = value(op.dy);
  const ConvDims d = conv_dims(x.shape, y.shape, op.kernel, op.stride, op.pad, op.planar);
  return prepared_best("conv2d_grad_w", best_way(d, x.dtype, Pass::grad_w), [&](Way way) {
    const auto library = std::make_shared<Library>();
    const bool bias = op.db != kNone;
    const Problem hint(d, x.dtype, y.dtype, /*w_type=*/x.dtype, bias, way);
    const Problem p(d, x.dtype, y.dtype, /*w_type=*/DType::f32, bias, way);
    const BackwardWeights pd = backward_weights(library->engine, p, forward(library->engine, hint));
    return prepared<dnnl::convolution_backward_weights>(
        library, pd,
        {{DNNL_ARG_SRC, op.x, p.own_x, pd.src_desc()},
         {DNNL_ARG_DIFF_DST, op.dy, p.own_y, pd.diff_dst_desc()},
         {DNNL_ARG_DIFF_WEIGHTS, op.dw, p.own_w, pd.diff_weights_desc(), /*result=*/true},
         {DNNL_ARG_DIFF_BIAS, op.db, p.own_b, p.own_b, /*result=*/true}});
  });
}

std::string convolution_library() {
  const dnnl_version_t* v = dnnl_version();
  // Its own choice of instructions, which ONEDNN_MAX_CPU_ISA limits, decides bits as ours does.
  return str("oneDNN ", v->major, ".", v->minor, ".", v->patch, " with ISA ", std::hex, "0x",
             static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
}

Bf16Unit bf16_unit() {
  const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [here](dnnl::cpu_isa isa) {
    return (here & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
  };
  if (has(dnnl::cpu_isa::avx512_core_amx)) return Bf16Unit::amx;
  return has(dnnl::cpu_isa::avx512_core_bf16) ? Bf16Unit::avx512 : Bf16Unit::none;
}

std::string convolution_bf16_problem() {
  return bf16_unit() != Bf16Unit::none ? ""
                                       : "bf16 needs a processor with AVX512-BF16, which oneDNN does not find here";
}

void convolution_enter_thread() { omp_set_num_threads(1); }

}  // namespace ct::cpu
