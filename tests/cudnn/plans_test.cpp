// Every convolution of the networks below has a plan of cuDNN for three GPUs, which is chosen here without one: cuDNN
// takes a GPU's properties from a text.
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/convolution.h"
#include "device/cuda/library.h"
#include "device/cuda/library_names.h"
#include "device/cuda/widened_convolution.h"
#include "model/models.h"

namespace ct::cuda {
namespace {

/// A GPU's properties in cuDNN's form.
struct Gpu {
  const char *name, *properties;
};
#define CT_SAME_IN_ALL                                                                                               \
  R"("driverVer":13000,"cudaDeviceId":0,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"      \
  R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"       \
  R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,)" \
  R"("isTccDriver":0,"supportCoopLaunch":1,)"
constexpr Gpu kGpus[] = {
    {"A100", "{" CT_SAME_IN_ALL R"("deviceVer":800,"totalGlobalMem":85094236160,"multiProcessorCount":108,)"
             R"("maxSharedMemoryPerBlockOptin":166912,"smClockRateKHz":1410000,"memClockRateKHz":1593000,)"
             R"("l2CacheSize":41943040,"deviceName":"NVIDIA A100-SXM4-80GB"})"},
    {"H100", "{" CT_SAME_IN_ALL R"("deviceVer":900,"totalGlobalMem":85029158912,"multiProcessorCount":132,)"
             R"("maxSharedMemoryPerBlockOptin":232448,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
             R"("l2CacheSize":52428800,"deviceName":"NVIDIA H100 80GB HBM3"})"},
    {"B200", "{" CT_SAME_IN_ALL R"("deviceVer":1000,"totalGlobalMem":191503138816,"multiProcessorCount":148,)"
             R"("maxSharedMemoryPerBlockOptin":232448,"smClockRateKHz":1965000,"memClockRateKHz":3996000,)"
             R"("l2CacheSize":132644864,"deviceName":"NVIDIA B200"})"}};
#undef CT_SAME_IN_ALL

struct Network {
  Model model;
  int64_t batch, side;
  DType compute;
};

using Case = std::tuple<Gpu, Network>;

/// The name of the test.
std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const auto& [gpu, network] = info.param;
  return str(gpu.name, "_", network.model.name, "_", name_of(network.compute));
}

struct Planned {
  ConvolutionPass pass;
  ConvolutionShape shape;
};

/// As the backend plans them.
std::vector<Planned> convolutions_of(const Network& network) {
  const Graph graph = build_graph(find_model(network.model), {.batch = network.batch,
                                                              .height = network.side,
                                                              .width = network.side,
                                                              .scale = {1, 1, 1},
                                                              .shift = {0, 0, 0},
                                                              .compute = network.compute});
  std::vector<Planned> all;
  const auto add = [&](ConvolutionPass pass, ValueId x, ValueId y, const auto& op, bool planar) {
    const auto value = [&](ValueId id) { return graph.values()[static_cast<size_t>(id)]; };
    const ConvolutionShape shape =
        convolution_shape(value(x).shape, value(y).shape, op.kernel, op.stride, op.pad, planar, value(x).dtype);
    all.push_back({pass, widened_shape(pass, shape).value_or(shape)});
  };
  for (const ComputeOp& op : graph.ops()) {
    if (const auto* c = std::get_if<Conv2d>(&op)) add(ConvolutionPass::forward, c->x, c->y, *c, c->planar);
    if (const auto* c = std::get_if<Conv2dGradW>(&op)) add(ConvolutionPass::grad_weights, c->x, c->dy, *c, c->planar);
    if (const auto* c = std::get_if<Conv2dGradX>(&op)) add(ConvolutionPass::grad_input, c->dx, c->dy, *c, false);
  }
  return all;
}

class CudnnPlans : public testing::TestWithParam<Case> {};

/// Null where cuDNN is not installed, for the reason.
std::unique_ptr<Convolutions> cudnn_for(const Gpu& gpu, std::string& reason) {
  try {
    Library("cuDNN", kCudnnFile, {});
  } catch (const Error& e) {
    reason = e.what();
    return nullptr;
  }
  return make_convolutions({.stream = nullptr, .planned_for = gpu.properties});
}

TEST_P(CudnnPlans, AreReproducibleAndRestoredFromTheirText) {
  const auto& [gpu, network] = GetParam();
  std::string reason;
  const auto cudnn = cudnn_for(gpu, reason);
  if (!cudnn) GTEST_SKIP() << reason;
  const std::vector<Planned> all = convolutions_of(network);
  ASSERT_FALSE(all.empty());
  for (const auto& [pass, shape] : all) {
    SCOPED_TRACE(str("pass ", static_cast<int>(pass), " of ", shape.n, " x ", shape.in_h, " x ", shape.in_w, " x ",
                     shape.in_channels, " to ", shape.out_channels, ", kernel ", shape.kernel, ", stride ",
                     shape.stride));
    const auto chosen = cudnn->prepare(pass, shape);
    EXPECT_LE(chosen->workspace_bytes(), size_t{256} << 20);
    EXPECT_EQ(chosen->traits().tensor_cores, shape.dtype != DType::f32);
    EXPECT_FALSE(chosen->traits().compiled_here);

    const auto restored = cudnn->prepare(pass, shape, chosen->plan());
    EXPECT_EQ(restored->plan(), chosen->plan());
    EXPECT_EQ(restored->workspace_bytes(), chosen->workspace_bytes());
  }
}

Network network(const std::string& name, int64_t batch, int64_t side, DType compute) {
  return {.model = {.name = name}, .batch = batch, .side = side, .compute = compute};
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, CudnnPlans,
    testing::Combine(testing::ValuesIn(kGpus),
                     testing::Values(network("resnet18", 512, 32, DType::bf16),
                                     network("resnet18", 512, 32, DType::f16), network("resnet18", 128, 32, DType::f32),
                                     network("resnet50", 256, 224, DType::bf16),
                                     network("resnet50", 64, 224, DType::f16), network("resnet50", 32, 224, DType::f32),
                                     network("airbench", 1000, 32, DType::bf16),
                                     network("resnet9", 512, 32, DType::bf16), network("cnn_plain", 4, 32, DType::f32),
                                     network("cnn_plain", 256, 32, DType::bf16), network("cct", 128, 32, DType::bf16),
                                     network("vit", 128, 224, DType::bf16))),
    name_of_case);

// Only kernels that are compiled with cuDNN are taken, and there are some for shapes of no usual network.
class CudnnPlansOfOddShapes : public testing::TestWithParam<Gpu> {};

TEST_P(CudnnPlansOfOddShapes, Exist) {
  std::string reason;
  const auto cudnn = cudnn_for(GetParam(), reason);
  if (!cudnn) GTEST_SKIP() << reason;
  struct Odd {
    int64_t n, in, height, width, out;
    int kernel, stride, pad;
  };
  for (const Odd& o : {Odd{1, 1, 1, 1, 1, 1, 1, 0}, Odd{17, 6, 14, 14, 16, 5, 1, 0}, Odd{3, 4, 6, 6, 9, 5, 2, 2},
                       Odd{1, 20, 3, 4, 7, 1, 1, 0}, Odd{1, 2, 2, 2, 3, 3, 1, 3}, Odd{3, 16, 9, 11, 33, 3, 2, 1},
                       Odd{3, 3, 17, 22, 8, 7, 2, 3}, Odd{2, 5, 64, 48, 130, 11, 4, 2}, Odd{2, 8, 33, 33, 16, 3, 3, 0}})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const bool planar : {false, true})
        for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::grad_input, ConvolutionPass::grad_weights}) {
          if (planar && pass == ConvolutionPass::grad_input) continue;  // images want no gradient
          const auto windows = [&](int64_t length) { return (length + 2 * o.pad - o.kernel) / o.stride + 1; };
          const Shape x = planar ? Shape{o.n, o.in, o.height, o.width} : Shape{o.n, o.height, o.width, o.in};
          const Shape y{o.n, windows(o.height), windows(o.width), o.out};
          const ConvolutionShape shape = convolution_shape(x, y, o.kernel, o.stride, o.pad, planar, dtype);
          EXPECT_NO_THROW(cudnn->prepare(pass, widened_shape(pass, shape).value_or(shape)));
        }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlansOfOddShapes, testing::ValuesIn(kGpus),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ct::cuda
