// Products of linear layers by cuBLASLt.
//
// It thinks in columns: a matrix [rows][columns] of ours is its columns x rows, at the same stride. So y = x w^T is its
// y = w^T x, and likewise for the gradients: see product().
//
// The same bits every time: the library promises them for one algorithm on one kind of GPU, in one stream and with a
// workspace of one's own, unless partial sums are added to the result in place by whoever comes next. So algorithms
// either do not split sums, or keep the parts in the workspace, in f32, and add them in a step of its own.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "device/cuda/check.h"
#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cuda_kernel.h"
#include "device/cuda/handle.h"
#include "device/cuda/matmul.h"
#include "device/cuda/recording.h"
#include "kernels/bias.h"
#include "kernels/elementwise.h"

namespace ct::cuda {
namespace {

constexpr size_t kWorkspaceLimit = size_t{32} << 20;
constexpr int kCandidates = 8;
constexpr uint32_t kSplitSums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
constexpr uint32_t kAlignment = 16;  // of operands

/// What lies in a workspace begins at multiples of 256 bytes.
size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

cudaDataType_t library_type(DType dtype) {
  return dtype == DType::f32 ? CUDA_R_32F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
}

/// A matrix as the library sees it: `rows` are contiguous.
struct Matrix {
  DType dtype;
  int64_t rows, columns, stride;
};

/// d = op(a) op(b).
struct Product {
  cublasOperation_t op_a, op_b;
  Matrix a, b, d;
};

Product product(LinearPass pass, const LinearShape& s) {
  const int64_t in_stride = round_up(s.in, kRowPad), out_stride = round_up(s.out, kRowPad);
  const Matrix x{s.dtype, s.in, s.rows, in_stride}, w{s.dtype, s.in, s.out, in_stride};
  const Matrix y{s.y_dtype, s.out, s.rows, out_stride}, dy{s.dtype, s.out, s.rows, out_stride};
  switch (pass) {
    case LinearPass::forward: {
      // The sum runs over the pads, which are zero: multiples of 16 are what tensor cores take.
      Matrix padded_x = x, padded_w = w;
      padded_x.rows = padded_w.rows = in_stride;
      return {CUBLAS_OP_T, CUBLAS_OP_N, padded_w, padded_x, y};
    }
    case LinearPass::grad_input:
      return {CUBLAS_OP_N, CUBLAS_OP_N, w, dy, x};
    case LinearPass::grad_weights:
      return {CUBLAS_OP_N, CUBLAS_OP_T, x, dy, {DType::f32, s.in, s.out, in_stride}};
  }
  fail(ExitCode::bug, "internal error: no such pass");
}

const char* result_of(LinearPass pass) {
  switch (pass) {
    case LinearPass::forward:
      return "linear";
    case LinearPass::grad_input:
      return "the input gradient of linear";
    case LinearPass::grad_weights:
      return "the weight gradient of linear";
  }
  fail(ExitCode::bug, "no such pass");
}

std::string name(LinearPass pass, const LinearShape& s) {
  return str(result_of(pass), ": x [", s.rows, "][", s.in, "] ", name_of(s.dtype), ", y [", s.rows, "][", s.out, "] ",
             name_of(s.y_dtype));
}

/// Does a bias, or its gradient, go with the product?
bool has_bias(LinearPass pass, const LinearShape& s) { return s.bias && pass != LinearPass::grad_input; }

struct LibraryContext {
  explicit LibraryContext(const LibraryOptions& options) : api(options.places), options(options) {
    cublasLtHandle_t raw = nullptr;
    api.check(api.create(&raw), "cublasLtCreate");
    handle = {raw, api.destroy};
  }
  CublasLt api;
  LibraryOptions options;
  std::unique_ptr<cublasLtContext, cublasStatus_t (*)(cublasLtHandle_t)> handle{nullptr, nullptr};
};

struct Algorithm {
  cublasLtMatmulAlgo_t data;
  size_t workspace_bytes;
};

/// Memory of operands' sizes, to try algorithms on: no more than the run itself will need.
class Scratch {
 public:
  Scratch(LinearPass pass, const LinearShape& s, size_t workspace_bytes)
      : x_(s.rows * round_up(s.in, kRowPad), s.dtype),
        w_(s.out * round_up(s.in, kRowPad), pass == LinearPass::grad_weights ? DType::f32 : s.dtype),
        y_(s.rows * round_up(s.out, kRowPad), s.y_dtype),
        b_(round_up(s.out, kRowPad), DType::f32),
        workspace_(static_cast<int64_t>(workspace_bytes / sizeof(float)), DType::f32) {}
  LinearOperands operands() const { return {x_.data, w_.data, y_.data, static_cast<float*>(b_.data.get())}; }
  void* workspace() const { return workspace_.data; }
  void fill(int byte, cudaStream_t stream) const {
    for (const Part* part : {&x_, &w_, &y_, &b_}) part->fill(byte, stream);
  }

 private:
  struct Part {
    Part(int64_t n, DType dtype) : bytes(static_cast<size_t>(n) * size_of(dtype)) {
      void* raw = nullptr;
      CT_CUDA(cudaMalloc(&raw, std::max(bytes, size_t{1})));
      data = Handle<void*, cudaFree>(raw);
    }
    void fill(int byte, cudaStream_t stream) const { CT_CUDA(cudaMemsetAsync(data, byte, bytes, stream)); }
    size_t bytes;
    Handle<void*, cudaFree> data;
  };
  Part x_, w_, y_, b_, workspace_;
};

class CublasltMatmul final : public Matmul {
 public:
  /// `fused`: with the bias, or its gradient, in the same kernel as the product.
  CublasltMatmul(std::shared_ptr<const LibraryContext> context, LinearPass pass, const LinearShape& shape, bool fused)
      : context_(std::move(context)), pass_(pass), shape_(shape), fused_(fused) {
    const Product p = product(pass, shape);
    const bool tf32 = shape.dtype == DType::f32 && context_->options.tf32;
    check(api().matmul_desc_init(&desc_, sizeof desc_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
          "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(p.op_a));
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(p.op_b));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue()));
    // For the heuristics and the check, which only look at how it is aligned.
    if (fused) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void*>(uintptr_t{kAlignment}));
    init(a_, p.a);
    init(b_, p.b);
    init(d_, p.d);
    if (pass != LinearPass::forward && shape.y_dtype != shape.dtype)
      cast_bytes_ = aligned(static_cast<size_t>(dy_elements()) * size_of(shape.dtype));
    if (pass == LinearPass::forward && fused && shape.y_dtype != DType::f32)
      cast_bytes_ = aligned(static_cast<size_t>(shape.out) * size_of(shape.y_dtype));
    if (pass == LinearPass::grad_weights && !fused && shape.bias)
      sums_bytes_ = aligned(kernels::bias_grad_workspace_bytes(shape.rows, shape.out));
  }

  /// Is there an algorithm? Then it is set: the heuristics' first that will do, or the fastest of them.
  bool choose() {
    const std::vector<Algorithm> found = candidates();
    if (found.empty()) return false;
    algorithm_ = found.front();
    if (!context_->options.autotune) return true;
    size_t most = 0;
    for (const Algorithm& each : found) most = std::max(most, each.workspace_bytes);
    const Scratch scratch(pass_, shape_, cast_bytes_ + sums_bytes_ + most);
    std::optional<Algorithm> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Algorithm& each : found) {
      algorithm_ = each;
      const double time = milliseconds(scratch);
      if (!best || time < least) {
        best = each;
        least = time;
      }
    }
    if (best) algorithm_ = *best;
    return best.has_value();
  }

  /// Does the library take it, and will it give the same bits every time? Then it is set.
  bool use(const cublasLtMatmulAlgo_t& data) {
    cublasLtMatmulHeuristicResult_t result{};
    if (!reproducible(data) ||
        api().algo_check(context_->handle.get(), &desc_, &a_, &b_, &d_, &d_, &data, &result) != CUBLAS_STATUS_SUCCESS)
      return false;
    algorithm_ = {data, result.workspaceSize};
    return result.workspaceSize <= kWorkspaceLimit;
  }

  size_t workspace_bytes() const override { return cast_bytes_ + sums_bytes_ + aligned(algorithm_.workspace_bytes); }

  void launch(const LinearOperands& o, void* workspace) override {
    const cudaStream_t stream = context_->options.stream;
    auto* const cast_to = static_cast<std::byte*>(workspace);
    std::byte *const sums = cast_to + cast_bytes_, *const own = sums + sums_bytes_;
    const auto cast = [&](DType from, DType to, int64_t n, const void* x) {
      const kernels::CastArgs args{.from = type_of(from), .to = type_of(to), .n = n, .x = x, .y = cast_to};
      CT_CUDA(kernels::cast(args, stream));
      return cast_to;
    };

    const bool forward = pass_ == LinearPass::forward;
    void *a = o.w, *b = o.y, *d = o.x, *bias = o.b;
    if (forward) {
      b = o.x;
      d = o.y;
      if (cast_bytes_ > 0) bias = cast(DType::f32, shape_.y_dtype, shape_.out, o.b);
    } else {
      if (cast_bytes_ > 0) b = cast(shape_.y_dtype, shape_.dtype, dy_elements(), o.y);
    }
    if (pass_ == LinearPass::grad_weights) {
      a = o.x;
      d = o.w;
    }
    if (fused_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const float one = 1, zero = 0;
    check(api().matmul(context_->handle.get(), &desc_, &one, a, &a_, b, &b_, &zero, d, &d_, d, &d_, &algorithm_.data,
                       own, algorithm_.workspace_bytes, stream),
          "cublasLtMatmul");

    const int64_t stride = round_up(shape_.out, kRowPad);
    if (forward && shape_.bias && !fused_)
      CT_CUDA(kernels::bias({.type = type_of(shape_.y_dtype),
                             .rows = shape_.rows,
                             .channels = shape_.out,
                             .stride = stride,
                             .relu = shape_.relu,
                             .x = o.y,
                             .b = o.b,
                             .y = o.y},
                            stream));
    else if (forward && shape_.relu)
      CT_CUDA(kernels::activate({.type = type_of(shape_.y_dtype),
                                 .activation = Activation::relu,
                                 .n = shape_.rows * stride,
                                 .x = o.y,
                                 .y = o.y},
                                stream));
    if (pass_ == LinearPass::grad_weights && shape_.bias && !fused_)
      CT_CUDA(kernels::bias_grad({.type = type_of(shape_.y_dtype),
                                  .rows = shape_.rows,
                                  .channels = shape_.out,
                                  .stride = stride,
                                  .dy = o.y,
                                  .y = nullptr,
                                  .db = o.b,
                                  .workspace = reinterpret_cast<float*>(sums)},
                                 stream));
  }

  std::string plan() const override {
    std::string text = str(api().get_version(), fused_ ? " fused " : " plain ");
    for (const uint64_t word : algorithm_.data.data)
      for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    return text;
  }

 private:
  const CublasLt& api() const { return context_->api; }
  void check(cublasStatus_t status, const char* call) const { api().check(status, call); }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(api().matmul_desc_set(&desc_, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  void init(cublasLtMatrixLayoutOpaque_t& layout, const Matrix& m) {
    check(api().matrix_layout_init(&layout, sizeof layout, library_type(m.dtype), static_cast<uint64_t>(m.rows),
                                   static_cast<uint64_t>(m.columns), m.stride),
          "cublasLtMatrixLayoutInit");
  }
  int64_t dy_elements() const { return shape_.rows * round_up(shape_.out, kRowPad); }

  cublasLtEpilogue_t epilogue() const {
    if (!fused_) return CUBLASLT_EPILOGUE_DEFAULT;
    if (pass_ == LinearPass::grad_weights) return CUBLASLT_EPILOGUE_BGRADB;
    return CUBLASLT_EPILOGUE_BIAS;  // not its ReLU, which may take a NaN for 0: the loss would not show it
  }

  bool reproducible(const cublasLtMatmulAlgo_t& data) const {
    uint32_t scheme = 0;
    size_t written = 0;
    return api().algo_config_get(&data, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written) ==
               CUBLAS_STATUS_SUCCESS &&
           (scheme == CUBLASLT_REDUCTION_SCHEME_NONE || scheme == kSplitSums);
  }

  std::vector<Algorithm> candidates() {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(api().preference_init(&preference, sizeof preference), "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(api().preference_set(&preference, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceLimit});
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kSplitSums);
    for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(operand, kAlignment);
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
    int count = 0;
    const cublasStatus_t status = api().get_heuristic(context_->handle.get(), &desc_, &a_, &b_, &d_, &d_, &preference,
                                                      kCandidates, results.data(), &count);
    // How it says that it has nothing differs between versions.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<Algorithm> found;
    for (int i = 0; i < count; ++i)
      if (results[i].state == CUBLAS_STATUS_SUCCESS && reproducible(results[i].algo))
        found.push_back({results[i].algo, results[i].workspaceSize});
    return found;
  }

  /// Milliseconds of one launch; infinite where the algorithm cannot be recorded, or not be launched.
  double milliseconds(const Scratch& scratch) {
    const cudaStream_t stream = context_->options.stream;
    scratch.fill(0x3c, stream);  // numbers of ordinary size
    return time_of_candidate(stream, [&] { launch(scratch.operands(), scratch.workspace()); });
  }

  std::shared_ptr<const LibraryContext> context_;
  LinearPass pass_;
  LinearShape shape_;
  bool fused_;
  cublasLtMatmulDescOpaque_t desc_;
  cublasLtMatrixLayoutOpaque_t a_, b_, d_;
  size_t cast_bytes_ = 0, sums_bytes_ = 0;  // of the workspace, before the algorithm's own
  Algorithm algorithm_{};
};

class CublasltMatmuls final : public Matmuls {
 public:
  explicit CublasltMatmuls(const LibraryOptions& options) : context_(std::make_shared<const LibraryContext>(options)) {}

  std::unique_ptr<Matmul> prepare(LinearPass pass, const LinearShape& shape, const std::string& plan) override {
    check(shape.rows > 0 && shape.in > 0 && shape.out > 0, name(pass, shape));
    check(shape.y_dtype == shape.dtype || shape.y_dtype == DType::f32, name(pass, shape));
    if (!plan.empty()) return restored(pass, shape, plan);
    for (const bool fused : {true, false}) {
      if (fused && !has_bias(pass, shape)) continue;
      auto matmul = std::make_unique<CublasltMatmul>(context_, pass, shape, fused);
      if (matmul->choose()) return matmul;
    }
    fail(ExitCode::usage, description(), " has no reproducible product for ", name(pass, shape),
         ": give another version's folder by --cuda-path, or another precision");
  }

  std::string description() const override { return context_->api.description(); }

 private:
  std::unique_ptr<Matmul> restored(LinearPass pass, const LinearShape& shape, const std::string& plan) {
    std::istringstream text(plan);
    size_t version = 0;
    std::string kind, hex, more;
    cublasLtMatmulAlgo_t data{};
    const bool whole = text >> version >> kind >> hex && !(text >> more) &&
                       (kind == "plain" || (kind == "fused" && has_bias(pass, shape))) &&
                       hex.size() == 2 * sizeof data.data &&
                       hex.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (whole && version == context_->api.get_version()) {
      for (size_t i = 0; i < std::size(data.data); ++i) data.data[i] = std::stoull(hex.substr(16 * i, 16), nullptr, 16);
      auto matmul = std::make_unique<CublasltMatmul>(context_, pass, shape, kind == "fused");
      if (matmul->use(data)) return matmul;
    }
    fail(ExitCode::usage, "the stored plan ", in_quotes(plan), " is none of ", description(), " for ",
         name(pass, shape));
  }

  std::shared_ptr<const LibraryContext> context_;
};

}  // namespace

std::unique_ptr<Matmuls> make_matmuls(const LibraryOptions& options) {
  return std::make_unique<CublasltMatmuls>(options);
}

}  // namespace ct::cuda
