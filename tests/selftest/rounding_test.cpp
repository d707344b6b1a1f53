#include "selftest/reference/rounding.h"

#include <gtest/gtest.h>

#include <limits>

namespace ct::reference {
namespace {

TEST(F16, KnownNumbers) {
  for (const auto& [bits, value] : {std::pair<int, double>{0x0000, 0},
                                    {0x3C00, 1},
                                    {0xC000, -2},
                                    {0x7BFF, 65504},
                                    {0x0400, 0x1p-14},
                                    {0x03FF, 0x1p-14 - 0x1p-24},
                                    {0x0001, 0x1p-24},
                                    {0x3555, 0.333251953125},
                                    {0x7C00, std::numeric_limits<double>::infinity()}}) {
    EXPECT_EQ(to_f16(value), bits) << value;
    EXPECT_EQ(from_f16(static_cast<uint16_t>(bits)), value);
  }
  EXPECT_TRUE(std::isnan(from_f16(to_f16(std::nan("")))));
  EXPECT_EQ(to_f16(-0.0), 0x8000);
}

TEST(F16, EveryNumberIsItsOwnRoundingAndHalfwayIsEven) {
  for (unsigned bits = 0; bits < 0x7C00; ++bits) {
    const double here = from_f16(static_cast<uint16_t>(bits));
    ASSERT_EQ(to_f16(here), bits);
    const double next = bits == 0x7BFF ? 65536 : from_f16(static_cast<uint16_t>(bits + 1));
    const double middle = (here + next) / 2, little = (next - here) / 64;
    ASSERT_EQ(to_f16(middle), bits + bits % 2);
    ASSERT_EQ(to_f16(middle - little), bits);
    ASSERT_EQ(to_f16(-(middle + little)), 0x8000 | (bits + 1));
  }
}

TEST(Rounding, StaysWithinItsBound) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (double x = 1e-9; x < 6e4; x *= 1.0173) ASSERT_LE(std::abs(rounded(type, x) - x), rounding_to(type, x)) << x;
}

}  // namespace
}  // namespace ct::reference
