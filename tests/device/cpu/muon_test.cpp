// Muon's iteration with products of matrices that the library multiplies in bf16: too large for the operations' cases.
#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "device/backend.h"
#include "device/cpu/convolution.h"
#include "device/cpu/kernels/testing.h"
#include "selftest/reference/optimizer.h"

namespace ct::cpu {
namespace {

/// The largest difference to the iteration in f64.
double error_of(DType between, int64_t rows, int64_t columns) {
  const optim::Muon muon;
  const std::vector<double> x = normal(static_cast<size_t>(rows * columns), 1);
  const std::vector<double> expected =
      reference::orthogonalize(muon, x, static_cast<size_t>(rows), static_cast<size_t>(columns));
  const int64_t n = std::min(rows, columns);
  const Shape shapes[] = {{rows * columns}, {rows, columns}, {rows, columns}, {n, n}, {n, n}};
  std::vector<Value> values;
  std::vector<std::unique_ptr<Buffer<float>>> memory;
  for (const Shape& shape : shapes) {
    values.push_back({.shape = shape, .dtype = DType::f32});
    memory.push_back(std::make_unique<Buffer<float>>(static_cast<size_t>(shape.stored())));
  }
  std::copy(x.begin(), x.end(), memory[0]->data());
  Orthogonalize op = muon.orthogonalize({}, rows, columns);
  op.x = 0, op.left = 1, op.product = 2, op.gram = 3, op.polynomial = 4;
  op.stride = columns;
  op.scale = 1;
  op.between = between;
  const auto backend = make_cpu_backend();
  const auto kernel = backend->prepare(op, values);
  Buffer<std::byte> workspace(kernel->workspace_bytes());
  const auto operand = [&](ValueId id) {
    const auto i = static_cast<size_t>(id);
    return Tensor{reinterpret_cast<std::byte*>(memory[i]->data()), DType::f32, values[i].shape};
  };
  kernel->bind(operand, workspace.data());
  kernel->launch();
  EXPECT_TRUE(workspace.intact());
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) error = std::max(error, std::abs((*memory[0])[i] - expected[i]));
  for (const auto& buffer : memory) EXPECT_TRUE(buffer->intact());
  return error;
}

TEST(Muon, RoundsLargeMatricesToBf16WhereItMay) {
  convolution_enter_thread();
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{272, 320}, {320, 272}}) {
    EXPECT_LT(error_of(DType::f32, rows, columns), 2e-4);
    const double rounded = error_of(DType::bf16, rows, columns);
    EXPECT_LT(rounded, 0.25 / std::sqrt(static_cast<double>(std::max(rows, columns))));
    EXPECT_EQ(rounded > 2e-4, bf16_unit() != Bf16Unit::none);  // it was rounded
  }
}

}  // namespace
}  // namespace ct::cpu
