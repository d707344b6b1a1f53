#include "fetch/published.h"

#include <gtest/gtest.h>

#include <set>

#include "data/kinds.h"

namespace ct {
namespace {

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

TEST(Published, EveryFileHasAnAddressASizeAndOneChecksum) {
  std::set<std::string> keys;
  for (const Published& set : published()) {
    EXPECT_TRUE(keys.insert(set.key).second) << set.key;
    EXPECT_EQ(find_published(set.key), &set);
    EXPECT_FALSE(set.terms.empty()) << set.key;
    ASSERT_FALSE(set.servers.empty()) << set.key;
    for (const std::string& server : set.servers)
      EXPECT_TRUE((server.starts_with("https://") || server.starts_with("http://")) && server.ends_with("/")) << server;
    ASSERT_FALSE(set.files.empty()) << set.key;
    for (const PublishedFile& file : set.files) {
      EXPECT_GT(file.bytes, 0u) << file.name;
      EXPECT_TRUE(file.sha256.empty() ? is_hex(file.md5, 32) : file.md5.empty() && is_hex(file.sha256, 64))
          << file.name;
    }
  }
}

// torchvision's convention: NAME-12345678.pth
TEST(Published, WeightsCarryTheBeginningOfTheirChecksumInTheirNames) {
  for (const char* network : {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}) {
    const Published* const weights = published_weights(network);
    ASSERT_NE(weights, nullptr) << network;
    ASSERT_EQ(weights->files.size(), 1u);
    EXPECT_EQ(weights->files[0].name, str(network, "-", weights->files[0].sha256.substr(0, 8), ".pth"));
  }
  EXPECT_EQ(published_weights("cifar10"), nullptr);
}

TEST(Published, SetsHaveTheFoldersInWhichTheirKindsLook) {
  for (const char* key : {"cifar10", "cifar100", "mnist"}) {
    ASSERT_NE(find_published(key), nullptr) << key;
    EXPECT_EQ(find_published(key)->folder, find_kind(key)->folder);
  }
}

}  // namespace
}  // namespace ct
