#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace ct {
namespace {

TEST(Text, AmountsAndCounts) {
  EXPECT_EQ(counted(1, "picture"), "1 picture");
  EXPECT_EQ(counted(0, "picture"), "0 pictures");
  EXPECT_EQ(human_bytes(178), "178 B");
  EXPECT_EQ(human_bytes(1234), "1.2 kB");
  EXPECT_EQ(human_bytes(9949999), "9.9 MB");
  EXPECT_EQ(human_bytes(9950000), "10 MB");
  EXPECT_EQ(human_bytes(999500000), "1.0 GB");
}

TEST(Text, Joined) {
  EXPECT_EQ(joined(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(joined(std::vector<std::string>{"", "b", ""}, ", "), ", b, ");
  EXPECT_EQ(joined(std::vector<std::string>{"ab", "c"}, "; ", [](const auto& s) { return s.substr(0, 1); }), "a; c");
}

}  // namespace
}  // namespace ct
