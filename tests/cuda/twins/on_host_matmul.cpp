// What cublaslt_matmul.cpp is to a GPU: products of linear layers for tests on the host, by plain loops that sum in
// double, in the stream's turn. The workspace is scribbled over, so that memory planned for two uses at once shows.
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "cuda/twins/the_plan.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_kernel.h"
#include "device/cuda/matmul.h"
#include "kernels/element.h"
#include "runtime.h"

namespace ct::cuda {
namespace {

/// [rows][columns] without pads, from rows that have them.
std::vector<double> load(const void* from, DType dtype, int64_t rows, int64_t columns) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(rows * columns));
  kernels::with_type(type_of(dtype), [&]<class T>(T) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        values.push_back(kernels::to_float(static_cast<const T*>(from)[r * round_up(columns, kRowPad) + c]));
    return cudaSuccess;
  });
  return values;
}

void store(const std::vector<double>& values, void* to, DType dtype, int64_t rows, int64_t columns) {
  kernels::with_type(type_of(dtype), [&]<class T>(T) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        static_cast<T*>(to)[r * round_up(columns, kRowPad) + c] =
            kernels::from_float<T>(static_cast<float>(values[static_cast<size_t>(r * columns + c)]));
    return cudaSuccess;
  });
}

/// dy as it is multiplied: of type `dtype`.
std::vector<double> load_dy(const LinearShape& s, const void* dy) {
  std::vector<double> values = load(dy, s.y_dtype, s.rows, s.out);
  kernels::with_type(type_of(s.dtype), [&]<class T>(T) {
    for (double& v : values) v = kernels::to_float(kernels::from_float<T>(static_cast<float>(v)));
    return cudaSuccess;
  });
  return values;
}

/// to[0..n) += factor * from[0..n)
void add(double* to, double factor, const double* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

void linear_forward(const LinearShape& s, const LinearOperands& o) {
  const std::vector<double> x = load(o.x, s.dtype, s.rows, s.in), w = load(o.w, s.dtype, s.out, s.in);
  std::vector<double> y(static_cast<size_t>(s.rows * s.out));
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < s.out; ++c) {
      double sum = s.bias ? o.b[c] : 0;
      for (int64_t i = 0; i < s.in; ++i) sum += x[r * s.in + i] * w[c * s.in + i];
      y[r * s.out + c] = s.relu && sum <= 0 ? 0 : sum;
    }
  store(y, o.y, s.y_dtype, s.rows, s.out);
}

void linear_grad_input(const LinearShape& s, const LinearOperands& o) {
  const std::vector<double> dy = load_dy(s, o.y), w = load(o.w, s.dtype, s.out, s.in);
  std::vector<double> dx(static_cast<size_t>(s.rows * s.in));
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < s.out; ++c) add(&dx[r * s.in], dy[r * s.out + c], &w[c * s.in], s.in);
  store(dx, o.x, s.dtype, s.rows, s.in);
}

void linear_grad_weights(const LinearShape& s, const LinearOperands& o) {
  const std::vector<double> x = load(o.x, s.dtype, s.rows, s.in), dy = load_dy(s, o.y);
  std::vector<double> dw(static_cast<size_t>(s.out * s.in)), db(static_cast<size_t>(s.out));
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t c = 0; c < s.out; ++c) {
      add(&dw[c * s.in], dy[r * s.out + c], &x[r * s.in], s.in);
      db[c] += dy[r * s.out + c];
    }
  store(dw, o.w, DType::f32, s.out, s.in);
  for (int64_t c = 0; c < s.out && s.bias; ++c) o.b[c] = static_cast<float>(db[c]);
}

class PlainMatmul final : public Matmul {
 public:
  PlainMatmul(cudaStream_t stream, LinearPass pass, const LinearShape& shape)
      : stream_(stream), pass_(pass), shape_(shape) {}
  size_t workspace_bytes() const override { return kWorkspaceBytes; }
  void launch(const LinearOperands& operands, void* workspace) override {
    const auto compute = pass_ == LinearPass::forward      ? linear_forward
                         : pass_ == LinearPass::grad_input ? linear_grad_input
                                                           : linear_grad_weights;
    const auto body = [compute, shape = shape_, operands, workspace] {
      std::memset(workspace, 0xff, kWorkspaceBytes);
      compute(shape, operands);
    };
    CT_CUDA(on_host::launch_on_device(stream_, body, str("matmul ", static_cast<int>(pass_))));
  }
  std::string plan() const override { return the_plan(); }

 private:
  cudaStream_t stream_;
  LinearPass pass_;
  LinearShape shape_;
};

class PlainMatmuls final : public Matmuls {
 public:
  explicit PlainMatmuls(cudaStream_t stream) : stream_(stream) {}
  std::unique_ptr<Matmul> prepare(LinearPass pass, const LinearShape& shape, const std::string& plan) override {
    check(shape.rows > 0 && shape.in > 0 && shape.out > 0, "a product of nothing");
    check(shape.y_dtype == shape.dtype || shape.y_dtype == DType::f32, "a product of types that cuBLASLt lacks");
    if (!plan.empty() && plan != the_plan())
      fail(ExitCode::usage, "the stored plan ", in_quotes(plan), " is none of these");
    return std::make_unique<PlainMatmul>(stream_, pass, shape);
  }
  std::string description() const override { return "products on the host"; }

 private:
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<Matmuls> make_matmuls(const LibraryOptions& options) {
  return std::make_unique<PlainMatmuls>(options.stream);
}

}  // namespace ct::cuda
