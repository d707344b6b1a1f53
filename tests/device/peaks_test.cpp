#include "device/peaks.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

TEST(Peaks, Bf16IsHeldAgainstWhatTheInstructionsCanDo) {
  using cpu::Bf16Unit;
  const std::string measured = "measured peaks of this core: 100 GFLOP/s, 10.0 GB/s copy";
  const auto peaks = [](DType compute, Bf16Unit unit) { return cpu_peaks(compute, unit, 100e9, 10e9); };
  EXPECT_EQ(peaks(DType::f32, Bf16Unit::amx).flops, 100e9);
  EXPECT_EQ(peaks(DType::f32, Bf16Unit::amx).text, measured);
  EXPECT_EQ(peaks(DType::bf16, Bf16Unit::none).flops, 100e9);
  EXPECT_EQ(peaks(DType::bf16, Bf16Unit::avx512).flops, 200e9);
  EXPECT_EQ(peaks(DType::bf16, Bf16Unit::amx).flops, 1600e9);
  EXPECT_EQ(peaks(DType::bf16, Bf16Unit::amx).text,
            measured + "; in bf16 by AMX at most 16 times as many, 1600 GFLOP/s");
  EXPECT_EQ(peaks(DType::bf16, Bf16Unit::amx).bytes, 10e9);
}

}  // namespace
}  // namespace ct
