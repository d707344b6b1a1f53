#include <gtest/gtest.h>

#include "data/description.h"
#include "data/made_up_set.h"

namespace ct {
namespace {

TEST(SameImages, AreToldByTheirContent) {
  const MadeUpSet set({3, 4, 4}, 3, 30), same({3, 4, 4}, 3, 30), fewer({3, 4, 4}, 3, 29);
  const MadeUpSet others({3, 4, 4}, 5, 30);  // of the same fingerprint
  EXPECT_NE(same_images(set, same, Split::test), "");
  EXPECT_EQ(same_images(set, fewer, Split::test), "");
  ASSERT_EQ(set.fingerprint(), others.fingerprint());
  EXPECT_EQ(same_images(set, others, Split::test), "");
}

}  // namespace
}  // namespace ct
