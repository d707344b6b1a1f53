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
#include "device/cpu/kernels/plain.h"
#include "device/cpu/linear.h"
#include "device/cpu/onednn_matmul.h"

namespace ct::cpu {
namespace {

int64_t stride_of(int64_t columns) { return round_up(columns, kRowPad); }

/// The product of a pass over some rows. `type`: of operands; `result`: of y and dx.
Product product_of(const Library& library, const LinearTask& task, int64_t rows, DType type, DType result) {
  const int64_t in = stride_of(task.in), out = task.out, stride = stride_of(out);
  const auto of = [&](const Matrix& a, const Matrix& b, const Matrix& c, bool bias) {
    return Product(library, a, b, c, bias, Into::overwrite);
  };
  switch (task.pass) {
    case LinearPass::forward:
      return of({rows, in, type}, {in, out, type, /*transposed=*/true}, {rows, out, result, false, stride},
                task.b != kNone);
    case LinearPass::grad_x:
      return of({rows, out, type, false, stride}, {out, in, type}, {rows, in, result}, /*bias=*/false);
    case LinearPass::grad_w:
      break;
  }
  return of({out, rows, type, /*transposed=*/true, stride}, {rows, in, type}, {out, in, DType::f32}, /*bias=*/false);
}

template <class T>
void clear_pads(T* y, int64_t rows, int64_t columns) {
  const int64_t stride = stride_of(columns);
  for (int64_t r = 0; r < rows && columns < stride; ++r)
    std::fill(y + r * stride + columns, y + (r + 1) * stride, T(0));
}

class LinearKernel final : public Kernel {
 public:
  explicit LinearKernel(const LinearTask& task) : task_(task), in_(stride_of(task.in)), stride_(stride_of(task.out)) {
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
  Product product(int64_t rows) const { return product_of(library_, task_, rows, task_.type, task_.type); }

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
    clear_pads(sums, rows, task_.out);
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

/// Operands in f32 are rounded by way of the workspace.
class RoundedProduct final : public Kernel {
 public:
  explicit RoundedProduct(const LinearTask& task)
      : task_(task), product_(product_of(library_, task, task.rows, DType::bf16, DType::f32)) {
    const auto stored = [](int64_t rows, int64_t columns) { return rows * stride_of(columns); };
    const int64_t x = stored(task.rows, task.in), w = stored(task.out, task.in), y = stored(task.rows, task.out);
    switch (task.pass) {
      case LinearPass::forward:
        a_ = {task.x, x}, b_ = {task.w, w}, result_ = task.y;
        break;
      case LinearPass::grad_x:
        a_ = {task.y, y}, b_ = {task.w, w}, result_ = task.x;
        break;
      case LinearPass::grad_w:
        a_ = {task.y, y}, b_ = {task.x, x}, result_ = task.w;
    }
  }

  size_t workspace_bytes() const override {
    return aligned(product_.scratch_bytes()) + rounded_bytes(a_) + (a_.id == b_.id ? 0 : rounded_bytes(b_));
  }

  void bind(const Resolve& operands, std::byte* workspace) override {
    scratch_ = workspace;
    std::byte* space = workspace + aligned(product_.scratch_bytes());
    for (Operand* operand : {&a_, &b_}) {
      operand->from = operands(operand->id).as<float>();
      operand->rounded = reinterpret_cast<uint16_t*>(space);
      if (a_.id != b_.id) space += rounded_bytes(*operand);
    }
    to_ = operands(result_).as<float>();
  }

  void launch() override {
    convert(a_.from, a_.rounded, a_.size);
    if (a_.id != b_.id) convert(b_.from, b_.rounded, b_.size);
    product_.run(library_, a_.rounded, b_.rounded, nullptr, to_, scratch_);
    library_.stream.wait();
    if (task_.pass == LinearPass::forward) clear_pads(to_, task_.rows, task_.out);
  }

 private:
  struct Operand {
    ValueId id = kNone;
    int64_t size = 0;  // stored elements
    const float* from = nullptr;
    uint16_t* rounded = nullptr;
  };
  static size_t rounded_bytes(const Operand& operand) {
    return aligned(static_cast<size_t>(operand.size) * sizeof(uint16_t));
  }

  LinearTask task_;
  Library library_;
  Product product_;
  Operand a_, b_;
  ValueId result_ = kNone;
  float* to_ = nullptr;
  std::byte* scratch_ = nullptr;
};

template <class T>
std::unique_ptr<Kernel> prepared(const LinearTask& task) {
  try {
    return std::make_unique<T>(task);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    fail(ExitCode::bug, "oneDNN cannot prepare a linear layer's product: ", e.what());
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_linear_by_library(const LinearTask& task) { return prepared<LinearKernel>(task); }

std::unique_ptr<Kernel> prepare_rounded_by_library(const LinearTask& task) {
  return bf16_unit() == Bf16Unit::none ? nullptr : prepared<RoundedProduct>(task);
}

}  // namespace ct::cpu
