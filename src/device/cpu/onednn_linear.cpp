// Linear layers as products of matrices by oneDNN:
//
//   forward   y  [rows][out] = x [rows][in] x w^T [in][out] + b, then the activation
//   grad_x    dx [rows][in]  = dy [rows][out] x w [out][in]
//   grad_w    dw [out][in]   = dy^T [out][rows] x x [rows][in], db by a kernel of its own
//
// Columns of `in` are taken with their pads, which are zero: those of results become zero by themselves, and rows lie
// one after the other. An activation follows a chunk of rows at a time, while they are in the cache.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "device/cpu/kernels/activation.h"
#include "device/cpu/kernels/column_sums.h"
#include "device/cpu/linear.h"
#include "device/cpu/onednn_matmul.h"

namespace ct::cpu {
namespace {

class LinearKernel final : public Kernel {
 public:
  explicit LinearKernel(const LinearTask& task)
      : task_(task), in_(round_up(task.in, kRowPad)), stride_(round_up(task.out, kRowPad)) {
    const int64_t enough = enough_rows(stride_ * static_cast<int64_t>(size_of(task.type)));  // of results
    const int64_t chunks = task.activation == Activation::none ? 1 : std::max<int64_t>(1, task.rows / enough);
    rows_ = (task.rows + chunks - 1) / chunks;
    chunk_.emplace(product(rows_));
    if (const int64_t left = task.rows % rows_; left > 0) last_.emplace(product(left));
  }

  size_t workspace_bytes() const override {
    return std::max(chunk_->scratch_bytes(), last_ ? last_->scratch_bytes() : 0);
  }

  void bind(const Resolve& operands, std::byte* workspace) override {
    const auto at = [&](ValueId id) { return id == kNone ? nullptr : operands(id).data; };
    x_ = at(task_.x);
    w_ = at(task_.w);
    b_ = reinterpret_cast<float*>(at(task_.b));
    y_ = at(task_.y);
    sums_ = task_.before == kNone ? y_ : at(task_.before);
    workspace_ = workspace;
  }

  void launch() override { task_.type == DType::bf16 ? launch_on<uint16_t>() : launch_on<float>(); }

 private:
  Product product(int64_t rows) const {
    const DType type = task_.type;
    const int64_t out = task_.out;
    const auto of = [&](const Matrix& a, const Matrix& b, const Matrix& c, bool bias) {
      return Product(library_, a, b, c, bias, Into::overwrite);
    };
    switch (task_.pass) {
      case LinearPass::forward:
        return of({rows, in_, type}, {in_, out, type, /*transposed=*/true}, {rows, out, type, false, stride_},
                  task_.b != kNone);
      case LinearPass::grad_x:
        return of({rows, out, type, false, stride_}, {out, in_, type}, {rows, in_, type}, /*bias=*/false);
      case LinearPass::grad_w:
        break;
    }
    return of({out, rows, type, /*transposed=*/true, stride_}, {rows, in_, type}, {out, in_, DType::f32},
              /*bias=*/false);
  }

  template <class T>
  void launch_on() {
    for (int64_t first = 0; first < task_.rows; first += rows_) {
      const int64_t rows = std::min(rows_, task_.rows - first);
      const Product& by = rows == rows_ ? *chunk_ : *last_;
      T *x = reinterpret_cast<T*>(x_) + first * in_, *y = reinterpret_cast<T*>(y_) + first * stride_,
        *sums = reinterpret_cast<T*>(sums_) + first * stride_;
      switch (task_.pass) {
        case LinearPass::forward:
          by.run(library_, x, w_, b_, sums, workspace_);
          finish(sums, y, rows);
          break;
        case LinearPass::grad_x:
          by.run(library_, y, w_, nullptr, x, workspace_);
          break;
        case LinearPass::grad_w:
          by.run(library_, y, x, nullptr, w_, workspace_);
          if (b_ != nullptr) column_sums(y, rows, task_.out, stride_, b_);
      }
    }
    library_.stream.wait();
  }

  /// Pads and activation of some rows of the forward pass.
  template <class T>
  void finish(T* sums, T* y, int64_t rows) {
    for (int64_t r = 0; r < rows && task_.out < stride_; ++r)
      std::fill(sums + r * stride_ + task_.out, sums + (r + 1) * stride_, T(0));
    if (task_.activation != Activation::none) activate(task_.activation, sums, y, rows * stride_);
  }

  LinearTask task_;
  int64_t in_, stride_;  // of rows of x, w and of y
  int64_t rows_;         // of a chunk
  Library library_;
  std::optional<Product> chunk_, last_;  // of a chunk's rows, of what is left
  std::byte *x_ = nullptr, *w_ = nullptr, *y_ = nullptr, *sums_ = nullptr, *workspace_ = nullptr;
  float* b_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> prepare_linear_by_library(const LinearTask& task) {
  try {
    return std::make_unique<LinearKernel>(task);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    fail(ExitCode::bug, "oneDNN cannot prepare a linear layer's product: ", e.what());
  }
}

}  // namespace ct::cpu
