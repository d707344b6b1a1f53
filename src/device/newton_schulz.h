// Muon's orthogonalisation as a prepared kernel (graph/ops.h, Orthogonalize). Its matrix products are the operations of
// linear layers, on the program's scratch values; the backend provides the steps between them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "device/backend.h"

namespace ct {

/// Does `left` have at most as many rows as columns, so that x x^T (n = rows) is smaller than x^T x?
inline bool is_wide(const Shape& left) { return left[0] <= left[1]; }

/// The products of one iteration, in order: gram = x x^T or x^T x; polynomial = gram gram; product = polynomial x or x
/// polynomial.
inline std::vector<ComputeOp> products_of(const Orthogonalize& op, const Shape& left) {
  const Linear square{.x = op.gram, .w = op.gram, .b = kNone, .y = op.polynomial};
  if (is_wide(left))
    return {Linear{.x = op.left, .w = op.left, .b = kNone, .y = op.gram}, square,
            LinearGradX{.w = op.left, .dy = op.polynomial, .dx = op.product}};
  return {LinearGradW{.x = op.left, .dy = op.left, .dw = op.gram, .db = kNone}, square,
          LinearGradX{.w = op.polynomial, .dy = op.left, .dx = op.product}};
}

/// The sizes and memory of the iteration.
struct NewtonSchulzArgs {
  int64_t rows, columns;  // of left, without pads
  int64_t x_stride, left_stride;
  int64_t left_size, gram_size;  // stored elements, including pads of rows
  float *x, *left, *product, *gram, *polynomial;
};

/// A backend's steps between the products.
struct NewtonSchulzSteps {
  size_t workspace_bytes = 0;  // for begin(); the products reuse the workspace
  /// left = x / max(|x|, eps)
  std::function<void(const NewtonSchulzArgs&, std::byte* workspace)> begin;
  /// to = a from + b to
  std::function<void(float a, const float* from, float b, float* to, int64_t n)> scaled_sum;
  /// x = scale left
  std::function<void(const NewtonSchulzArgs&)> end;
};

class NewtonSchulz final : public Kernel {
 public:
  /// `products`: the prepared operations of products_of().
  NewtonSchulz(Orthogonalize op, const Shape& left, const Shape& gram, std::vector<std::unique_ptr<Kernel>> products,
               NewtonSchulzSteps steps)
      : op_(std::move(op)), products_(std::move(products)), steps_(std::move(steps)) {
    args_.rows = left[0];
    args_.columns = left[1];
    args_.x_stride = op_.stride;
    args_.left_stride = left.stride();
    args_.left_size = left.stored();
    args_.gram_size = gram.stored();
  }

  size_t workspace_bytes() const override {
    size_t most = steps_.workspace_bytes;
    for (const auto& product : products_) most = std::max(most, product->workspace_bytes());
    return most;
  }

  void bind(const Resolve& operands, std::byte* workspace) override {
    workspace_ = workspace;
    for (const auto& product : products_) product->bind(operands, workspace);
    const auto at = [&](ValueId id) { return operands(id).as<float>(); };
    args_.x = at(op_.x);
    args_.left = at(op_.left);
    args_.product = at(op_.product);
    args_.gram = at(op_.gram);
    args_.polynomial = at(op_.polynomial);
  }

  void launch() override {
    const auto [a, b, c] = op_.coefficients;
    const auto number = [](double x) { return static_cast<float>(x); };
    steps_.begin(args_, workspace_);
    for (int i = 0; i < op_.steps; ++i) {
      products_[0]->launch();
      products_[1]->launch();
      steps_.scaled_sum(number(b), args_.gram, number(c), args_.polynomial, args_.gram_size);
      products_[2]->launch();
      steps_.scaled_sum(1, args_.product, number(a), args_.left, args_.left_size);
    }
    steps_.end(args_);
  }

 private:
  Orthogonalize op_;
  std::vector<std::unique_ptr<Kernel>> products_;
  NewtonSchulzSteps steps_;
  NewtonSchulzArgs args_{};
  std::byte* workspace_ = nullptr;
};

}  // namespace ct
