// Linear layers by the library's product against the scalar reference, and when it is taken.
#include "device/cpu/linear.h"

#include <array>

#include "device/cpu/convolution.h"
#include "device/cpu/kernels/testing.h"
#include "selftest/reference/activation.h"
#include "selftest/reference/bf16.h"

namespace ct::cpu {
namespace {

using Doubles = std::vector<double>;

LinearTask task(LinearPass pass, int64_t rows, int64_t in, int64_t out, DType type = DType::f32) {
  return {.pass = pass,
          .rows = rows,
          .in = in,
          .out = out,
          .type = type,
          .x = 0,
          .w = 1,
          .b = 2,
          .y = 3,
          .activation = Activation::none};
}

TEST(Linear, SmallLayersKeepTheirOwnKernels) {
  const auto large = [](int64_t rows, int64_t in, int64_t out) {
    return wants_library(task(LinearPass::forward, rows, in, out));
  };
  // The tutorial's network, a linear model and small ResNets, whose bits are known.
  for (const int64_t batch : {1, 4, 64, 250, 512, 1024})
    for (const auto& [in, out] :
         std::vector<std::pair<int64_t, int64_t>>{{400, 120}, {120, 84}, {84, 10}, {3072, 10}, {512, 10}})
      EXPECT_FALSE(large(batch, in, out)) << batch << " of " << in << " -> " << out;
  EXPECT_FALSE(large(4, 2048, 1000));
  EXPECT_TRUE(large(64 * 65, 192, 192));
  EXPECT_TRUE(large(64 * 65, 192, 576));
  EXPECT_TRUE(large(128, 2048, 1000));
}

/// A matrix in memory: rows padded as tensors are, in either type.
class Rows {
 public:
  Rows(DType type, int64_t columns, const Doubles& dense) : columns_(columns), stride_(round_up(columns, kRowPad)) {
    const Doubles stored = with_stride(dense, columns, stride_);
    if (type == DType::f32)
      f32_ = std::make_unique<Buffer<float>>(stored);
    else
      bf16_ = std::make_unique<Buffer<uint16_t>>(stored.size());
    for (size_t i = 0; i < stored.size() && bf16_; ++i) (*bf16_)[i] = reference::to_bf16(stored[i]);
  }
  /// To be written.
  Rows(DType type, int64_t columns, int64_t rows) : Rows(type, columns, Doubles(rows * columns, NAN)) {
    for (size_t i = 0; i < size(); ++i) f32_ ? (*f32_)[i] = NAN : (*bf16_)[i] = 0x7FC0;
  }
  std::byte* data() const {
    return f32_ ? reinterpret_cast<std::byte*>(f32_->data()) : reinterpret_cast<std::byte*>(bf16_->data());
  }
  /// Elements without pads, which are zero.
  Doubles dense() const {
    Doubles values;
    for (size_t i = 0; i < size(); ++i) {
      const double v = f32_ ? (*f32_)[i] : reference::from_bf16((*bf16_)[i]);
      if (static_cast<int64_t>(i) % stride_ < columns_)
        values.push_back(v);
      else
        EXPECT_EQ(v, 0) << "pad " << i;
    }
    EXPECT_TRUE(f32_ ? f32_->intact() : bf16_->intact());
    return values;
  }

 private:
  size_t size() const { return f32_ ? f32_->size() : bf16_->size(); }
  int64_t columns_, stride_;
  std::unique_ptr<Buffer<float>> f32_;
  std::unique_ptr<Buffer<uint16_t>> bf16_;
};

/// Norm of the difference over the norm.
double distance(const Doubles& found, const Doubles& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

struct Problem {
  int64_t rows, in, out;
  DType type;
  Doubles x, w, b, dy;
  Problem(int64_t r, int64_t i, int64_t o, DType t)
      : rows(r),
        in(i),
        out(o),
        type(t),
        x(random(r * i, 1)),
        w(random(i * o, 2)),
        b(normal(o, 3)),
        dy(random(r * o, 4)) {}
  Doubles random(int64_t n, uint32_t seed) const {
    Doubles values = normal(static_cast<size_t>(n), seed);
    for (double& v : values)
      if (type == DType::bf16) v = reference::rounded_to_bf16(v);
    return values;
  }
  double tolerance() const { return type == DType::bf16 ? 4e-3 : 1e-6; }

  /// Launches a pass over operands x, w, b, y, before.
  static void launch(const LinearTask& task, const std::array<std::byte*, 5>& at) {
    launch(prepare_linear_by_library(task), at);
  }
  static void launch(const std::unique_ptr<Kernel>& kernel, const std::array<std::byte*, 5>& at) {
    Buffer<std::byte> workspace(kernel->workspace_bytes());
    kernel->bind([&](ValueId id) { return Tensor{at[static_cast<size_t>(id)], DType::f32, {}}; }, workspace.data());
    kernel->launch();
    kernel->launch();  // writes, never adds
    EXPECT_TRUE(workspace.intact());
  }

  void expect_forward(Activation activation, bool bias, bool keep) const {
    Rows px(type, in, x), pw(type, in, w), y(type, out, rows), before(type, out, rows);
    Buffer<float> pb(b);
    LinearTask t = task(LinearPass::forward, rows, in, out, type);
    t.activation = activation;
    t.before = keep ? 4 : kNone;
    if (!bias) t.b = kNone;
    launch(t, {px.data(), pw.data(), reinterpret_cast<std::byte*>(pb.data()), y.data(), before.data()});
    const Doubles sums = reference::linear(rows, in, out, x, w, bias ? b : Doubles(b.size()));
    const Doubles want = reference::activation(activation, sums);
    EXPECT_LT(distance(y.dense(), want), tolerance());
    if (keep) {
      EXPECT_LT(distance(before.dense(), sums), tolerance());
    }
  }
  void expect_gradients(bool bias) const {
    const auto want = reference::linear_gradients(rows, in, out, x, w, dy);
    Rows px(type, in, x), pw(type, in, w), pdy(type, out, dy), dx(type, in, rows), dw(DType::f32, in, out);
    Buffer<float> db(b.size());
    launch(task(LinearPass::grad_x, rows, in, out, type), {dx.data(), pw.data(), nullptr, pdy.data(), nullptr});
    EXPECT_LT(distance(dx.dense(), want.dx), tolerance());
    LinearTask t = task(LinearPass::grad_w, rows, in, out, type);
    if (!bias) t.b = kNone;
    launch(t, {px.data(), dw.data(), reinterpret_cast<std::byte*>(db.data()), pdy.data(), nullptr});
    EXPECT_LT(distance(dw.dense(), want.dw), tolerance());
    for (size_t i = 0; i < b.size(); ++i)
      if (bias)
        EXPECT_NEAR(db[i], want.db[i], ct::cpu::tolerance(64, std::sqrt(static_cast<double>(rows))));
      else
        EXPECT_TRUE(std::isnan(db[i]));
    EXPECT_TRUE(db.intact());
  }
};

TEST(Linear, TheLibrarysProductIsTheReferences) {
  if (!prepare_linear_by_library(task(LinearPass::forward, 1, 1, 1))) GTEST_SKIP() << "no library";
  for (const DType type : {DType::f32, DType::bf16}) {
    if (type == DType::bf16 && bf16_unit() == Bf16Unit::none) continue;
    // Pads of either's rows, of both, of none; columns beyond a block of the library's; several chunks of rows, one of
    // them short.
    for (const auto& [rows, in, out] :
         std::vector<std::array<int64_t, 3>>{{33, 20, 48}, {20, 48, 10}, {1, 7, 5}, {130, 64, 80}, {1101, 5, 512}}) {
      SCOPED_TRACE(testing::Message() << rows << " of " << in << " -> " << out << " in " << name_of(type));
      const Problem p(rows, in, out, type);
      for (const bool bias : {true, false}) {
        p.expect_forward(Activation::none, bias, /*keep=*/false);
        for (const Activation a : kActivations)
          for (const bool keep : {true, false})
            if (!keep || !is_fused(a)) p.expect_forward(a, bias, keep);
      }
      for (const bool bias : {true, false}) p.expect_gradients(bias);
    }
  }
}

TEST(Linear, TheRoundedProductIsThatOfNumbersInBf16) {
  if (bf16_unit() == Bf16Unit::none) GTEST_SKIP() << "no unit for bf16";
  const auto hardly_more = [](Doubles values) {  // which rounding removes
    for (double& v : values) v *= 1 + 0x1p-11;
    return values;
  };
  const auto launch = [](LinearPass pass, const Problem& p, const std::array<std::byte*, 5>& at) {
    LinearTask t = task(pass, p.rows, p.in, p.out);
    t.b = kNone;
    Problem::launch(prepare_rounded_by_library(t), at);
  };
  for (const auto& [rows, in, out] : std::vector<std::array<int64_t, 3>>{{33, 20, 48}, {20, 48, 10}, {130, 64, 80}}) {
    SCOPED_TRACE(testing::Message() << rows << " of " << in << " -> " << out);
    const Problem p(rows, in, out, DType::bf16);
    const auto want = reference::linear_gradients(rows, in, out, p.x, p.w, p.dy);
    Rows x(DType::f32, in, hardly_more(p.x)), w(DType::f32, in, hardly_more(p.w)), dy(DType::f32, out, p.dy),
        y(DType::f32, out, rows), dx(DType::f32, in, rows), dw(DType::f32, in, out);
    launch(LinearPass::forward, p, {x.data(), w.data(), nullptr, y.data(), nullptr});
    launch(LinearPass::grad_x, p, {dx.data(), w.data(), nullptr, dy.data(), nullptr});
    launch(LinearPass::grad_w, p, {x.data(), dw.data(), nullptr, dy.data(), nullptr});
    constexpr double kInF32 = 1e-6;
    EXPECT_LT(distance(y.dense(), reference::linear(rows, in, out, p.x, p.w, Doubles(p.b.size()))), kInF32);
    EXPECT_LT(distance(dx.dense(), want.dx), kInF32);
    EXPECT_LT(distance(dw.dense(), want.dw), kInF32);
  }
  // A matrix times itself, as Muon's iteration has it, is rounded once.
  const Problem p(48, 64, 48, DType::bf16);
  Rows x(DType::f32, p.in, hardly_more(p.x)), y(DType::f32, p.rows, p.rows);
  LinearTask square = task(LinearPass::forward, p.rows, p.in, p.rows);
  square.b = kNone, square.w = square.x;
  Problem::launch(prepare_rounded_by_library(square), {x.data(), nullptr, nullptr, y.data(), nullptr});
  EXPECT_LT(distance(y.dense(), reference::linear(p.rows, p.in, p.rows, p.x, p.x, Doubles(p.b.size()))), 1e-6);
}

/// A step whose numbers are broken must show it.
TEST(Linear, NotANumberPassesTheLibrarysActivations) {
  if (!prepare_linear_by_library(task(LinearPass::forward, 1, 1, 1))) GTEST_SKIP() << "no library";
  for (const Activation a : kActivations) {
    Doubles x(16 * 20, 1);
    x[5] = NAN;
    Rows px(DType::f32, 20, x), pw(DType::f32, 20, Doubles(20 * 3, 1)), y(DType::f32, 3, 16);
    Buffer<float> b(Doubles(3));
    LinearTask t = task(LinearPass::forward, 16, 20, 3);
    t.activation = a;
    Problem::launch(t, {px.data(), pw.data(), reinterpret_cast<std::byte*>(b.data()), y.data(), nullptr});
    const Doubles found = y.dense();
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), i < 3) << i;
  }
}

}  // namespace
}  // namespace ct::cpu
