// Convolution by oneDNN, versions 2.6 and 3. Weights stay in the program's own order; where the library prefers
// another one, they are reordered on the way in and their gradients on the way out.
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"
#include "device/cpu/convolution.h"
#include "device/cpu/cpu_kernel.h"

namespace ct::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Dims = memory::dims;

struct Descriptors {
  memory::desc x, y, weights, bias;  // as the program stores them
  memory::desc any_weights;
  Dims strides, pads;

  explicit Descriptors(const ConvDims& d)
      : x({d.n, d.in_channels, d.in_h, d.in_w}, memory::data_type::f32, d.planar ? Tag::nchw : Tag::nhwc),
        y({d.n, d.out_channels, d.out_h, d.out_w}, memory::data_type::f32, Tag::nhwc),
        weights({d.out_channels, d.in_channels, d.kernel, d.kernel}, memory::data_type::f32, Tag::ohwi),
        bias({d.out_channels}, memory::data_type::f32, Tag::a),
        any_weights({d.out_channels, d.in_channels, d.kernel, d.kernel}, memory::data_type::f32, Tag::any),
        strides{d.stride, d.stride},
        pads{d.pad, d.pad} {}
};

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

using Forward = dnnl::convolution_forward::primitive_desc;
using BackwardData = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;

#if DNNL_VERSION_MAJOR >= 3
Forward forward(const dnnl::engine& e, const Descriptors& d, bool bias) {
  return {e,
          dnnl::prop_kind::forward_training,
          kAlgorithm,
          d.x,
          d.any_weights,
          bias ? d.bias : memory::desc(),
          d.y,
          d.strides,
          d.pads,
          d.pads,
          user_scratchpad()};
}
BackwardData backward_data(const dnnl::engine& e, const Descriptors& d, const Forward& hint) {
  return {e, kAlgorithm, d.x, d.any_weights, d.y, d.strides, d.pads, d.pads, hint, user_scratchpad()};
}
BackwardWeights backward_weights(const dnnl::engine& e, const Descriptors& d, const Forward& hint, bool bias) {
  return {e,      kAlgorithm, d.x,  d.any_weights,    bias ? d.bias : memory::desc(), d.y, d.strides,
          d.pads, d.pads,     hint, user_scratchpad()};
}
#else
Forward forward(const dnnl::engine& e, const Descriptors& d, bool bias) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  using Desc = dnnl::convolution_forward::desc;
  const Desc desc = bias ? Desc(kKind, kAlgorithm, d.x, d.any_weights, d.bias, d.y, d.strides, d.pads, d.pads)
                         : Desc(kKind, kAlgorithm, d.x, d.any_weights, d.y, d.strides, d.pads, d.pads);
  return {desc, user_scratchpad(), e};
}
BackwardData backward_data(const dnnl::engine& e, const Descriptors& d, const Forward& hint) {
  return {{kAlgorithm, d.x, d.any_weights, d.y, d.strides, d.pads, d.pads}, user_scratchpad(), e, hint};
}
BackwardWeights backward_weights(const dnnl::engine& e, const Descriptors& d, const Forward& hint, bool bias) {
  using Desc = dnnl::convolution_backward_weights::desc;
  const Desc desc = bias ? Desc(kAlgorithm, d.x, d.any_weights, d.bias, d.y, d.strides, d.pads, d.pads)
                         : Desc(kAlgorithm, d.x, d.any_weights, d.y, d.strides, d.pads, d.pads);
  return {desc, user_scratchpad(), e, hint};
}
#endif

/// The engine and stream of a prepared operation; cheap, and free of anything shared between threads. A primitive
/// descriptor keeps only a bare pointer to its engine, so both live as long as the kernel.
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Weights in the library's preferred order, in the workspace, behind the scratchpad.
struct Reordered {
  bool needed;
  memory::desc desc;
  Reordered(const memory::desc& own, const memory::desc& preferred) : needed(own != preferred), desc(preferred) {}
  size_t bytes() const { return needed ? aligned(desc.get_size()) : 0; }
};

/// Called with the operands, in order, whenever the operation runs: primitives and what they read and write.
using Calls = std::vector<std::pair<dnnl::primitive, std::unordered_map<int, memory>>>;

template <class MakeCalls>
std::unique_ptr<Kernel> prepared(std::shared_ptr<Library> library, const memory::desc& scratchpad,
                                 const Reordered& weights, MakeCalls make_calls) {
  const size_t scratch_bytes = aligned(scratchpad.get_size());
  return make_kernel(scratch_bytes + weights.bytes(),
                     [library, scratchpad, weights, make_calls, scratch_bytes](const Operands& at, float* workspace) {
                       std::byte* bytes = reinterpret_cast<std::byte*>(workspace);
                       const memory scratch(scratchpad, library->engine, bytes);
                       Calls calls = make_calls(at, library->engine, scratch, bytes + scratch_bytes);
                       return [library, calls] {
                         for (const auto& [primitive, arguments] : calls) primitive.execute(library->stream, arguments);
                         library->stream.wait();
                       };
                     });
}

template <class Make>
auto guarded(const char* what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& e) {
    fail(ExitCode::bug, "oneDNN cannot prepare ", what, ": ", e.what());
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv2d(const Conv2d& op, const std::vector<Value>& values) {
  const auto shape = [&](ValueId id) { return values[static_cast<size_t>(id)].shape; };
  const Descriptors d(conv_dims(shape(op.x), shape(op.y), op.kernel, op.stride, op.pad, op.planar));
  return guarded("conv2d", [&] {
    const auto library = std::make_shared<Library>();
    const Forward pd = forward(library->engine, d, op.b != kNone);
    const Reordered weights(d.weights, pd.weights_desc());
    return prepared(library, pd.scratchpad_desc(), weights,
                    [=](const Operands& at, const dnnl::engine& e, const memory& scratch, std::byte* space) {
                      const memory own(d.weights, e, at.f32(op.w));
                      const memory w = weights.needed ? memory(weights.desc, e, space) : own;
                      Calls calls;
                      if (weights.needed)
                        calls.push_back({dnnl::reorder(own, w), {{DNNL_ARG_FROM, own}, {DNNL_ARG_TO, w}}});
                      std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(d.x, e, at.f32(op.x))},
                                                                {DNNL_ARG_WEIGHTS, w},
                                                                {DNNL_ARG_DST, memory(d.y, e, at.f32(op.y))},
                                                                {DNNL_ARG_SCRATCHPAD, scratch}};
                      if (op.b != kNone) arguments.insert({DNNL_ARG_BIAS, memory(d.bias, e, at.f32(op.b))});
                      calls.push_back({dnnl::convolution_forward(pd), arguments});
                      return calls;
                    });
  });
}

std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradX& op, const std::vector<Value>& values) {
  const auto shape = [&](ValueId id) { return values[static_cast<size_t>(id)].shape; };
  const Descriptors d(conv_dims(shape(op.dx), shape(op.dy), op.kernel, op.stride, op.pad, /*planar=*/false));
  return guarded("conv2d_grad_x", [&] {
    const auto library = std::make_shared<Library>();
    const BackwardData pd = backward_data(library->engine, d, forward(library->engine, d, false));
    const Reordered weights(d.weights, pd.weights_desc());
    return prepared(library, pd.scratchpad_desc(), weights,
                    [=](const Operands& at, const dnnl::engine& e, const memory& scratch, std::byte* space) {
                      const memory own(d.weights, e, at.f32(op.w));
                      const memory w = weights.needed ? memory(weights.desc, e, space) : own;
                      Calls calls;
                      if (weights.needed)
                        calls.push_back({dnnl::reorder(own, w), {{DNNL_ARG_FROM, own}, {DNNL_ARG_TO, w}}});
                      calls.push_back({dnnl::convolution_backward_data(pd),
                                       {{DNNL_ARG_DIFF_DST, memory(d.y, e, at.f32(op.dy))},
                                        {DNNL_ARG_WEIGHTS, w},
                                        {DNNL_ARG_DIFF_SRC, memory(d.x, e, at.f32(op.dx))},
                                        {DNNL_ARG_SCRATCHPAD, scratch}}});
                      return calls;
                    });
  });
}

std::unique_ptr<Kernel> prepare_conv2d(const Conv2dGradW& op, const std::vector<Value>& values) {
  const auto shape = [&](ValueId id) { return values[static_cast<size_t>(id)].shape; };
  const Descriptors d(conv_dims(shape(op.x), shape(op.dy), op.kernel, op.stride, op.pad, op.planar));
  return guarded("conv2d_grad_w", [&] {
    const auto library = std::make_shared<Library>();
    const bool bias = op.db != kNone;
    const BackwardWeights pd = backward_weights(library->engine, d, forward(library->engine, d, bias), bias);
    const Reordered weights(d.weights, pd.diff_weights_desc());
    return prepared(library, pd.scratchpad_desc(), weights,
                    [=](const Operands& at, const dnnl::engine& e, const memory& scratch, std::byte* space) {
                      const memory own(d.weights, e, at.f32(op.dw));
                      const memory dw = weights.needed ? memory(weights.desc, e, space) : own;
                      std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(d.x, e, at.f32(op.x))},
                                                                {DNNL_ARG_DIFF_DST, memory(d.y, e, at.f32(op.dy))},
                                                                {DNNL_ARG_DIFF_WEIGHTS, dw},
                                                                {DNNL_ARG_SCRATCHPAD, scratch}};
                      if (bias) arguments.insert({DNNL_ARG_DIFF_BIAS, memory(d.bias, e, at.f32(op.db))});
                      Calls calls{{dnnl::convolution_backward_weights(pd), arguments}};
                      if (weights.needed)
                        calls.push_back({dnnl::reorder(dw, own), {{DNNL_ARG_FROM, dw}, {DNNL_ARG_TO, own}}});
                      return calls;
                    });
  });
}

std::string convolution_library() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

void convolution_enter_thread() { omp_set_num_threads(1); }

}  // namespace ct::cpu
