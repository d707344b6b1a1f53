#include "cli/launch/rank_place.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct {
namespace {

TEST(RankPlace, DevicesOfARank) {
  EXPECT_EQ(devices_of_rank("0,1;0,2,5", 0), "0,1");
  EXPECT_EQ(devices_of_rank("0,1;0,2,5", 1), "0,1");
  EXPECT_EQ(devices_of_rank("0,1;0,2,5", 2), "0,2,5");
  EXPECT_EQ(devices_of_rank("0,1;0,2,5", 4), "0,2,5");
  EXPECT_EQ(devices_of_rank("7", 0), "7");
  EXPECT_THROW(devices_of_rank("0,1;0,2,5", 5), Error);
  EXPECT_THROW(devices_of_rank("", 0), Error);
}

}  // namespace
}  // namespace ct
