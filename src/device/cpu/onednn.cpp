// Convolution by oneDNN's convolution primitives, versions 2.6 and 3. Weights stay in the program's own order; where
// the library prefers another one, they are reordered on the way in and their gradients on the way out.
#include "device/cpu/onednn.h"

#include <omp.h>

#include "base/error.h"
#include "device/cpu/convolution.h"
#include "device/cpu/cpu_kernel.h"

namespace ct::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Dims = memory::dims;

/// The library has Winograd's too, in some versions and for some processors, but slower than ours: it wants activations
/// in blocks of channels.
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

/// A convolution as the library is asked for it, and as the program stores its operands.
struct Problem {
  memory::desc own_x, own_y, own_w, own_b;
  memory::desc x, y, w, b;
  Dims strides, pads;

  Problem(const ConvTask& task, DType w_type, ConvAlgorithm algorithm) {
    const ConvDims& d = task.dims;
    const auto type = library_type(task.type);
    const Dims x_dims{d.n, d.in_channels, d.in_h, d.in_w}, y_dims{d.n, d.out_channels, d.out_h, d.out_w};
    const Dims w_dims{d.out_channels, d.in_channels, d.kernel, d.kernel};
    own_x = {x_dims, type, d.planar ? Tag::nchw : Tag::nhwc};
    own_y = {y_dims, type, Tag::nhwc};
    own_w = {w_dims, library_type(w_type), Tag::ohwi};
    if (task.bias != kNone) own_b = b = {{d.out_channels}, memory::data_type::f32, Tag::a};
    // With planar images the library falls back on its reference code.
    x = {x_dims, type, algorithm == ConvAlgorithm::direct ? Tag::nhwc : Tag::any};
    y = {y_dims, type, algorithm == ConvAlgorithm::direct ? Tag::nhwc : Tag::any};
    w = {w_dims, library_type(w_type), Tag::any};
    strides = {d.stride, d.stride};
    pads = {d.pad, d.pad};
  }
};

using Forward = dnnl::convolution_forward::primitive_desc;
using BackwardData = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;

#if DNNL_VERSION_MAJOR >= 3
Forward forward(const dnnl::engine& e, const Problem& p) {
  return {e,
          dnnl::prop_kind::forward_training,
          kAlgorithm,
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
  return {e, kAlgorithm, p.x, p.w, p.y, p.strides, p.pads, p.pads, hint, user_scratchpad()};
}
BackwardWeights backward_weights(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {e, kAlgorithm, p.x, p.w, p.b, p.y, p.strides, p.pads, p.pads, hint, user_scratchpad()};
}
#else
Forward forward(const dnnl::engine& e, const Problem& p) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  return {{kKind, kAlgorithm, p.x, p.w, p.b, p.y, p.strides, p.pads, p.pads}, user_scratchpad(), e};
}
BackwardData backward_data(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {{kAlgorithm, p.x, p.w, p.y, p.strides, p.pads, p.pads}, user_scratchpad(), e, hint};
}
BackwardWeights backward_weights(const dnnl::engine& e, const Problem& p, const Forward& hint) {
  return {{kAlgorithm, p.x, p.w, p.b, p.y, p.strides, p.pads, p.pads}, user_scratchpad(), e, hint};
}
#endif

/// An operand of a primitive: where the order that the library wants is not the program's own, it is reordered by way
/// of the workspace.
struct Operand {
  int argument;
  ValueId id;
  memory::desc own, wanted;
  bool result = false;
};

/// Null where the library has only reference code.
template <class Primitive>
std::unique_ptr<Kernel> prepared(std::shared_ptr<Library> library, const typename Primitive::primitive_desc& pd,
                                 std::vector<Operand> operands) {
  if (std::string_view(pd.impl_info_str()).starts_with("ref")) return nullptr;
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

std::unique_ptr<Kernel> prepare_primitive(const ConvTask& task, ConvAlgorithm algorithm) {
  const auto library = std::make_shared<Library>();
  const Problem p(task, task.type, algorithm);  // of a weight gradient: the forward pass, as a hint
  const Forward forward_pd = forward(library->engine, p);
  switch (task.pass) {
    case ConvPass::forward:
      return prepared<dnnl::convolution_forward>(
          library, forward_pd,
          {{DNNL_ARG_SRC, task.image, p.own_x, forward_pd.src_desc()},
           {DNNL_ARG_WEIGHTS, task.weights, p.own_w, forward_pd.weights_desc()},
           {DNNL_ARG_BIAS, task.bias, p.own_b, p.own_b},
           {DNNL_ARG_DST, task.result, p.own_y, forward_pd.dst_desc(), /*result=*/true}});
    case ConvPass::grad_x: {
      const BackwardData pd = backward_data(library->engine, p, forward_pd);
      return prepared<dnnl::convolution_backward_data>(
          library, pd,
          {{DNNL_ARG_DIFF_DST, task.result, p.own_y, pd.diff_dst_desc()},
           {DNNL_ARG_WEIGHTS, task.weights, p.own_w, pd.weights_desc()},
           {DNNL_ARG_DIFF_SRC, task.image, p.own_x, pd.diff_src_desc(), /*result=*/true}});
    }
    case ConvPass::grad_w: {
      const Problem in_f32(task, /*w_type=*/DType::f32, algorithm);
      const BackwardWeights pd = backward_weights(library->engine, in_f32, forward_pd);
      return prepared<dnnl::convolution_backward_weights>(
          library, pd,
          {{DNNL_ARG_SRC, task.image, p.own_x, pd.src_desc()},
           {DNNL_ARG_DIFF_DST, task.result, p.own_y, pd.diff_dst_desc()},
           {DNNL_ARG_DIFF_WEIGHTS, task.weights, in_f32.own_w, pd.diff_weights_desc(), /*result=*/true},
           {DNNL_ARG_DIFF_BIAS, task.bias, in_f32.own_b, in_f32.own_b, /*result=*/true}});
    }
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Kernel> prepare_by_library(const ConvTask& task, ConvAlgorithm algorithm) {
  try {
    return algorithm == ConvAlgorithm::product ? prepare_product(task) : prepare_primitive(task, algorithm);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    if (algorithm != ConvAlgorithm::product) return nullptr;
    fail(ExitCode::bug, "oneDNN cannot prepare a matrix product: ", e.what());
  }
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

bool convolution_has_avx512() {
  constexpr auto kCore = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kCore) == kCore;
}

void convolution_enter_thread() { omp_set_num_threads(1); }

}  // namespace ct::cpu
