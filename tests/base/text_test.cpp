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

TEST(Text, Wrapped) {
  EXPECT_EQ(wrapped("", 10), "");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("one two three four", 8), "one two\n  three\n  four");
  EXPECT_EQ(wrapped("  a: [one, two]", 8, "    "), "  a:\n    [one,\n    two]");
  EXPECT_EQ(wrapped("averylongword b averylongword", 6), "averylongword\n  b\n  averylongword");
  EXPECT_EQ(wrapped("two  blanks stay", 12), "two  blanks\n  stay");
  EXPECT_EQ(wrapped("two  blanks go", 5), "two\n  blanks\n  go");
}

TEST(Text, Joined) {
  EXPECT_EQ(joined(std::vector<std::string>{}, ", "), "");
  EXPECT_EQ(joined(std::vector<std::string>{"", "b", ""}, ", "), ", b, ");
  EXPECT_EQ(joined(std::vector<std::string>{"ab", "c"}, "; ", [](const auto& s) { return s.substr(0, 1); }), "a; c");
}

}  // namespace
}  // namespace ct
