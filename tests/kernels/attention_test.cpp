#include "attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "buffer.h"
#include "typed.h"

namespace ct::kernels {
namespace {

struct Case {
  int64_t n, tokens, heads, width;
  bool mask_diagonal;
  int64_t pads = 0;  // of a row
};
std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.n << " images, " << c.tokens << " tokens, " << c.heads << " heads of " << c.width
            << (c.mask_diagonal ? ", masked" : "") << ", " << c.pads << " pads";
}
/// One tile and several, full or not, in each of the widths that tensor cores have kernels for, and between them.
const Case kCases[] = {{1, 65, 2, 64, true},    {2, 16, 1, 64, false, 8},  {1, 80, 1, 32, true},
                       {1, 17, 2, 24, true, 8}, {1, 81, 1, 40, true, 8},   {1, 197, 1, 64, true},
                       {1, 32, 1, 128, false},  {1, 70, 1, 100, true, 12}, {1, 5, 3, 7, false, 3}};

template <class>
class Attention : public testing::Test {};
using Types = testing::Types<float, __nv_bfloat16, __half>;
TYPED_TEST_SUITE(Attention, Types);

struct Result {
  std::vector<float> y, log_sum_exp, dqkv, dtemperature;
};

template <class T>
class Problem {
 public:
  explicit Problem(const Case& c)
      : c_(c),
        shape_{
            Named<T>::kType,           c.n, c.tokens, c.heads, c.width, c.mask_diagonal, 3 * c.heads * c.width + c.pads,
            c.heads * c.width + c.pads},
        scale_(1 / std::sqrt(static_cast<float>(c.width))) {
    qkv_ = rows(shape_.qkv_stride, 1), dy_ = rows(shape_.y_stride, 2);
  }

  /// `shift`: elements by which all operands miss 16-byte alignment.
  Result run(size_t shift) const {
    const size_t sums = size(c_.n * c_.heads * c_.tokens);
    Buffer<T> qkv(qkv_, shift), dy(dy_, shift), y(dy_.size(), shift), dqkv(qkv_.size(), shift);
    Buffer<float> log_sum_exp(sums), dtemperature(1), temperature(std::vector<float>{std::log(scale_)}),
        workspace(attention_grad_workspace_bytes(shape_) / sizeof(float));
    EXPECT_EQ(attention({shape_, qkv.data(), 0, temperature.data(), y.data(), log_sum_exp.data()}, nullptr),
              cudaSuccess);
    EXPECT_EQ(attention_grad({shape_, qkv.data(), 0, temperature.data(), log_sum_exp.data(), dy.data(), dqkv.data(),
                              dtemperature.data(), workspace.data()},
                             nullptr),
              cudaSuccess);
    return {y.values(), log_sum_exp.values(), dqkv.values(), dtemperature.values()};
  }

  /// The same in f64, and the size of each sum's terms, of which errors are shares.
  void expect_near(const Result& got) const {
    std::vector<double> y(dy_.size()), dqkv(qkv_.size()), y_size(y), dqkv_size(dqkv);
    double dtemperature = 0, dtemperature_size = 0;
    const double share = 4 * Named<T>::kRounding + 1e-5, scale = std::exp(std::log(scale_));
    for (int64_t n = 0; n < c_.n; ++n)
      for (int64_t h = 0; h < c_.heads; ++h)
        for (int64_t i = 0; i < c_.tokens; ++i) {
          const auto q = [&](int64_t part, int64_t token, int64_t d) {
            return size((n * c_.tokens + token) * shape_.qkv_stride + (part * c_.heads + h) * c_.width + d);
          };
          const auto o = [&](int64_t d) { return size((n * c_.tokens + i) * shape_.y_stride + h * c_.width + d); };
          std::vector<double> logits(size(c_.tokens)), p(size(c_.tokens)), dp(size(c_.tokens)), dp_size(dp);
          double sum = 0, mean = 0, mean_size = 0;
          for (int64_t j = 0; j < c_.tokens; ++j) {
            if (c_.mask_diagonal && i == j) continue;
            for (int64_t d = 0; d < c_.width; ++d) {
              logits[size(j)] += scale * qkv_[q(0, i, d)] * qkv_[q(1, j, d)];
              dp[size(j)] += double{dy_[o(d)]} * qkv_[q(2, j, d)];
              dp_size[size(j)] += std::abs(double{dy_[o(d)]} * qkv_[q(2, j, d)]);
            }
            sum += p[size(j)] = std::exp(logits[size(j)]);
          }
          EXPECT_NEAR(got.log_sum_exp[size((n * c_.heads + h) * c_.tokens + i)], std::log(sum), 1e-4);
          for (int64_t j = 0; j < c_.tokens; ++j) {
            p[size(j)] /= sum;
            mean += p[size(j)] * dp[size(j)], mean_size += p[size(j)] * dp_size[size(j)];
          }
          for (int64_t j = 0; j < c_.tokens; ++j) {
            const double ds = p[size(j)] * (dp[size(j)] - mean), ds_size = p[size(j)] * (dp_size[size(j)] + mean_size);
            dtemperature += ds * logits[size(j)], dtemperature_size += ds_size * std::abs(logits[size(j)]);
            for (int64_t d = 0; d < c_.width; ++d) {
              const auto add = [&](std::vector<double>& to, std::vector<double>& sizes, size_t at, double by, double of,
                                   double with) { to[at] += by * with, sizes[at] += std::abs(of * with); };
              add(y, y_size, o(d), p[size(j)], p[size(j)], qkv_[q(2, j, d)]);
              add(dqkv, dqkv_size, q(0, i, d), scale * ds, scale * ds_size, qkv_[q(1, j, d)]);
              add(dqkv, dqkv_size, q(1, j, d), scale * ds, scale * ds_size, qkv_[q(0, i, d)]);
              add(dqkv, dqkv_size, q(2, j, d), p[size(j)], p[size(j)], dy_[o(d)]);
            }
          }
        }
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(got.y[i], y[i], share * y_size[i]) << "y " << i;
    for (size_t i = 0; i < dqkv.size(); ++i) ASSERT_NEAR(got.dqkv[i], dqkv[i], share * dqkv_size[i]) << "dqkv " << i;
    EXPECT_NEAR(got.dtemperature[0], dtemperature, 1e-4 * dtemperature_size);
  }

 private:
  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  /// NaN in pads, where they must not matter.
  std::vector<float> rows(int64_t stride, uint32_t which) const {
    std::vector<float> m = rounded<T>(numbers(size(c_.n * c_.tokens * stride), which));
    for (size_t i = 0; i < m.size(); ++i)
      if (size(stride) - i % size(stride) <= size(c_.pads)) m[i] = std::numeric_limits<float>::quiet_NaN();
    return m;
  }

  Case c_;
  AttentionShape shape_;
  float scale_;
  std::vector<float> qkv_, dy_;
};

TYPED_TEST(Attention, IsNearTheReferenceAndHasTheSameBitsUnaligned) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::PrintToString(c));
    const Problem<TypeParam> problem(c);
    const Result result = problem.run(0), unaligned = problem.run(1);
    problem.expect_near(result);
    expect_same(unaligned.y, result.y);
    expect_same(unaligned.log_sum_exp, result.log_sum_exp);
    expect_same(unaligned.dqkv, result.dqkv);
    expect_same(unaligned.dtemperature, result.dtemperature);
  }
}

}  // namespace
}  // namespace ct::kernels
