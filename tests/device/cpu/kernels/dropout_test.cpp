#include "device/cpu/kernels/dropout.h"

#include "device/cpu/kernels/testing.h"

namespace ct::cpu {
namespace {

class DropoutKernel : public KernelTest {};
CT_KERNEL_SUITE(DropoutKernel);

constexpr int64_t kElements = int64_t{1} << 18;

/// Which of the elements are kept.
std::vector<char> mask_of(const DropoutKey& key, int number, double p) {
  Buffer<float> x(std::vector<double>(kElements, 1.0)), y(kElements);
  dropout(DropoutArgs<float>{
      .n = kElements, .key = &key, .number = number, .below = keep_below(p), .scale = 2, .x = x, .y = y});
  std::vector<char> mask;
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_TRUE(y[i] == 0 || y[i] == 2);
    mask.push_back(y[i] != 0);
  }
  return mask;
}

/// How far `count` successes of so many trials are from what is expected, as chi squared of one degree of freedom.
double chi_squared(double count, double trials, double probability) {
  const double expected = trials * probability;
  return (count - expected) * (count - expected) / (expected * (1 - probability));
}

// Beyond these chi squared is with a probability of 0.001.
constexpr double kOneDegree = 10.83, k128Degrees = 182.8;

TEST_P(DropoutKernel, KeepsAsManyAsItShould) {
  for (const double p : {0.1, 0.25, 0.5, 0.9})
    for (const uint64_t seed : {0, 1, 42}) {
      const std::vector<char> mask = mask_of({seed, 5, 1}, 0, p);
      double kept = 0;
      std::vector<double> by_place(kDropoutGroup);
      for (int64_t i = 0; i < kElements; ++i) {
        kept += mask[i];
        by_place[i % kDropoutGroup] += mask[i];
      }
      EXPECT_LT(chi_squared(kept, kElements, 1 - p), kOneDegree) << p << " seed " << seed;
      double sum = 0;
      for (const double count : by_place) sum += chi_squared(count, kElements / kDropoutGroup, 1 - p);
      EXPECT_LT(sum, k128Degrees) << p << " seed " << seed;
    }
}

/// Masks of other keys, and of neighbours in one mask, agree as often as those that know nothing of each other.
TEST_P(DropoutKernel, MasksKnowNothingOfEachOther) {
  const double p = 0.3, agreement = (1 - p) * (1 - p) + p * p;
  const std::vector<char> mask = mask_of({42, 5, 1}, 3, p);
  const auto compare = [&](const std::vector<char>& other, int64_t shift, const char* what) {
    double same = 0;
    for (int64_t i = shift; i < kElements; ++i) same += mask[i - shift] == other[i];
    EXPECT_LT(chi_squared(same, static_cast<double>(kElements - shift), agreement), kOneDegree) << what;
  };
  compare(mask_of({43, 5, 1}, 3, p), 0, "seed");
  compare(mask_of({42, 6, 1}, 3, p), 0, "step");
  compare(mask_of({42, 5, 2}, 3, p), 0, "micro-batch");
  compare(mask_of({42, 5, 1}, 4, p), 0, "operation");
  for (const int64_t shift : {1, 8, 16, 32, 128}) compare(mask, shift, "a neighbour");
}

/// In its own place, on one element, and one of which the last group is not whole.
TEST_P(DropoutKernel, EveryElementHasItsOwnDraw) {
  const DropoutKey key{42, (int64_t{3} << 32) + 1, 77};
  for (const int64_t n : {1, 16, 127, 128, 129, 1000}) {
    Buffer<float> x(std::vector<double>(static_cast<size_t>(n), 3.0));
    dropout(DropoutArgs<float>{.n = n, .key = &key, .number = 9, .below = keep_below(0.4), .scale = 2, .x = x, .y = x});
    EXPECT_TRUE(x.intact());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], dropout_keeps(key, 9, 0.4, i) ? 6.0f : 0.0f) << i << " of " << n;
  }
}

TEST_P(DropoutKernel, WhatIsNotKeptIsZeroWhateverItWas) {
  const DropoutKey key{1, 0, 0};
  std::vector<double> values(300, std::numeric_limits<double>::quiet_NaN());
  Buffer<float> x(values), y(values.size());
  dropout(DropoutArgs<float>{.n = 300, .key = &key, .number = 0, .below = keep_below(0.5), .scale = 2, .x = x, .y = y});
  for (int64_t i = 0; i < 300; ++i) EXPECT_TRUE(dropout_keeps(key, 0, 0.5, i) ? std::isnan(y[i]) : y[i] == 0) << i;
}

}  // namespace
}  // namespace ct::cpu
