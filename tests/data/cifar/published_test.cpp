#include <gtest/gtest.h>

#include <vector>

#include "data/cifar/cifar_kind.h"

namespace ct {
namespace {

TEST(Published, FilesThatAreNotAreNamed) {
  const std::vector<std::string> published(kCifarSha1.begin(), kCifarSha1.end());
  EXPECT_EQ(note_of_published(published), "");
  std::vector<std::string> some = published;
  some[1] = published[0];
  some[5] = std::string(40, '0');
  EXPECT_EQ(note_of_published(some).find("data_batch_2.bin, test_batch.bin: differs from the published file"), 0u)
      << note_of_published(some);
  some[1] = some[5] = "";
  EXPECT_EQ(note_of_published(some), "");
  const std::vector<std::string> others(6, std::string(40, '0'));
  EXPECT_EQ(note_of_published(others).find("no file has the checksum of a published one of CIFAR-10"), 0u);
  std::vector<std::string> one_damaged = others;
  one_damaged[3] = "";
  EXPECT_EQ(note_of_published(one_damaged), note_of_published(others));
}

}  // namespace
}  // namespace ct
