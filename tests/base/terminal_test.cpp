#include "base/terminal.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

TEST(Terminal, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(columns_of("Grüße"), 5);
  EXPECT_EQ(columns_of("汉字"), 4);
  EXPECT_EQ(columns_of("e\u0301"), 1);  // joins the letter
  EXPECT_EQ(columns_of(""), 0);
}

TEST(Terminal, TextIsCutBetweenCharacters) {
  EXPECT_EQ(first_columns("Grüße", 3), "Grü");
  EXPECT_EQ(first_columns("汉字", 3), "汉");
  EXPECT_EQ(first_columns("short", 80), "short");
  EXPECT_EQ(first_columns("any", 0), "");
}

}  // namespace
}  // namespace ct
