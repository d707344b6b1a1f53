#include "graph/expert_capacity.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

TEST(ExpertCapacity, IsDeepSpeeds) {
  EXPECT_EQ(expert_capacity(16, 4, 1, 1, 0), 4);
  EXPECT_EQ(expert_capacity(16, 3, 1, 1, 0), 6);
  EXPECT_EQ(expert_capacity(16, 4, 2, 1, 0), 8);
  EXPECT_EQ(expert_capacity(16, 4, 1, 1.25, 0), 5);
  EXPECT_EQ(expert_capacity(16, 4, 1, 1, 7), 7);
  EXPECT_EQ(expert_capacity(4, 8, 1, 0.1, 0), 1);
  EXPECT_EQ(expert_capacity(16, 2, 2, 3, 0), 16);  // no more than there are
  EXPECT_EQ(expert_capacity(4, 2, 1, 1, 40), 4);
}

}  // namespace
}  // namespace ct
