// What cudnn_convolution.cpp is to a GPU: convolutions for tests on the host, by plain loops that sum in double, in the
// stream's turn. The workspace is scribbled over, so that memory planned for two uses at once shows.
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "cuda/twins/the_plan.h"
#include "device/cuda/check.h"
#include "device/cuda/convolution.h"
#include "device/cuda/cuda_kernel.h"
#include "kernels/element.h"
#include "runtime.h"

namespace ct::cuda {
namespace {

std::vector<double> load(const void* from, DType dtype, int64_t n) {
  std::vector<double> values(static_cast<size_t>(n));
  kernels::with_type(type_of(dtype), [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = kernels::to_float(static_cast<const T*>(from)[i]);
    return cudaSuccess;
  });
  return values;
}

void store(const std::vector<double>& values, void* to, DType dtype) {
  kernels::with_type(type_of(dtype), [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i)
      static_cast<T*>(to)[i] = kernels::from_float<T>(static_cast<float>(values[i]));
    return cudaSuccess;
  });
}

int64_t elements_of_x(const ConvolutionShape& s) { return s.n * s.in_h * s.in_w * s.in_channels; }
int64_t elements_of_w(const ConvolutionShape& s) { return s.out_channels * s.kernel * s.kernel * s.in_channels; }
int64_t elements_of_y(const ConvolutionShape& s) { return s.n * s.out_h * s.out_w * s.out_channels; }

/// each(x, w, y), the places of the elements of every product in the convolution, y in order.
template <class Each>
void products(const ConvolutionShape& s, const Each& each) {
  int64_t y = 0;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oy = 0; oy < s.out_h; ++oy)
      for (int64_t ox = 0; ox < s.out_w; ++ox)
        for (int64_t o = 0; o < s.out_channels; ++o, ++y)
          for (int64_t ky = 0; ky < s.kernel; ++ky)
            for (int64_t kx = 0; kx < s.kernel; ++kx) {
              const int64_t iy = oy * s.stride - s.pad + ky, ix = ox * s.stride - s.pad + kx;
              if (iy < 0 || iy >= s.in_h || ix < 0 || ix >= s.in_w) continue;
              for (int64_t i = 0; i < s.in_channels; ++i) {
                const int64_t x = s.planar ? ((n * s.in_channels + i) * s.in_h + iy) * s.in_w + ix
                                           : ((n * s.in_h + iy) * s.in_w + ix) * s.in_channels + i;
                each(x, ((o * s.kernel + ky) * s.kernel + kx) * s.in_channels + i, y);
              }
            }
}

struct Operands3 {
  void *image, *weights, *result;
};

void forward(const ConvolutionShape& s, const Operands3& at) {
  const std::vector<double> x = load(at.image, s.dtype, elements_of_x(s)),
                            w = load(at.weights, s.dtype, elements_of_w(s));
  std::vector<double> y(static_cast<size_t>(elements_of_y(s)));
  products(s, [&](int64_t i, int64_t j, int64_t k) { y[k] += x[i] * w[j]; });
  store(y, at.result, s.dtype);
}

void grad_input(const ConvolutionShape& s, const Operands3& at) {
  const std::vector<double> w = load(at.weights, s.dtype, elements_of_w(s)),
                            dy = load(at.result, s.dtype, elements_of_y(s));
  std::vector<double> dx(static_cast<size_t>(elements_of_x(s)));
  products(s, [&](int64_t i, int64_t j, int64_t k) { dx[i] += dy[k] * w[j]; });
  store(dx, at.image, s.dtype);
}

/// Rounded to the dtype on the way, as cuDNN's.
void grad_weights(const ConvolutionShape& s, const Operands3& at) {
  const std::vector<double> x = load(at.image, s.dtype, elements_of_x(s)),
                            dy = load(at.result, s.dtype, elements_of_y(s));
  std::vector<double> dw(static_cast<size_t>(elements_of_w(s)));
  products(s, [&](int64_t i, int64_t j, int64_t k) { dw[j] += x[i] * dy[k]; });
  kernels::with_type(type_of(s.dtype), [&]<class T>(T) {
    for (double& v : dw) v = kernels::to_float(kernels::from_float<T>(static_cast<float>(v)));
    return cudaSuccess;
  });
  store(dw, at.weights, DType::f32);
}

class PlainConvolution final : public Convolution {
 public:
  PlainConvolution(cudaStream_t stream, ConvolutionPass pass, const ConvolutionShape& shape)
      : stream_(stream), pass_(pass), shape_(shape) {}
  size_t workspace_bytes() const override { return kWorkspaceBytes; }
  void launch(void* image, void* weights, void* result, void* workspace) override {
    const auto compute = pass_ == ConvolutionPass::forward      ? forward
                         : pass_ == ConvolutionPass::grad_input ? grad_input
                                                                : grad_weights;
    const auto body = [=, shape = shape_] {
      std::memset(workspace, 0xff, kWorkspaceBytes);
      compute(shape, {image, weights, result});
    };
    CT_CUDA(on_host::launch_on_device(stream_, body, str("convolution ", static_cast<int>(pass_))));
  }
  std::string plan() const override { return the_plan(); }
  Traits traits() const override { return {}; }

 private:
  cudaStream_t stream_;
  ConvolutionPass pass_;
  ConvolutionShape shape_;
};

class PlainConvolutions final : public Convolutions {
 public:
  explicit PlainConvolutions(cudaStream_t stream) : stream_(stream) {}
  std::unique_ptr<Convolution> prepare(ConvolutionPass pass, const ConvolutionShape& shape,
                                       const std::string& plan) override {
    if (!plan.empty() && plan != the_plan())
      fail(ExitCode::usage, "the stored plan ", in_quotes(plan), " is none of these");
    return std::make_unique<PlainConvolution>(stream_, pass, shape);
  }
  std::string description() const override { return "convolutions on the host"; }

 private:
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<Convolutions> make_convolutions(const LibraryOptions& options) {
  return std::make_unique<PlainConvolutions>(options.stream);
}

}  // namespace ct::cuda
