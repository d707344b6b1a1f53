// Tests that run for every element type: its name, its rounding, and comparison to the bit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "element.h"

namespace ct::kernels {

template <class T>
struct Named;
template <>
struct Named<float> {
  static constexpr Type kType = Type::f32;
  static constexpr double kRounding = 0x1p-24;  // of a result, relative
};
template <>
struct Named<__nv_bfloat16> {
  static constexpr Type kType = Type::bf16;
  static constexpr double kRounding = 0x1p-8;
};
template <>
struct Named<__half> {
  static constexpr Type kType = Type::f16;
  static constexpr double kRounding = 0x1p-11;
};

template <class T>
float rounded(float x) {
  return to_float(from_float<T>(x));
}
template <class T>
std::vector<float> rounded(std::vector<float> v) {
  for (float& x : v) x = rounded<T>(x);
  return v;
}

/// The same values to the bit, a NaN like any other.
inline void expect_same(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    else
      ASSERT_EQ(std::bit_cast<int32_t>(got[i]), std::bit_cast<int32_t>(want[i]))
          << i << ": " << got[i] << ", not " << want[i];
}

}  // namespace ct::kernels
