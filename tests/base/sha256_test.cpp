#include "base/sha256.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct {
namespace {

// Test vectors of FIPS 180-4's examples.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1000000, 'a');
  EXPECT_EQ(sha256_hex(million.data(), million.size()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha1, KnownAnswers) {
  EXPECT_EQ(sha1_hex({}), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_hex(std::as_bytes(std::span("abc", 3))), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(Md5, KnownAnswers) {
  EXPECT_EQ(md5_hex({}), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex(std::as_bytes(std::span("abc", 3))), "900150983cd24fb0d6963f7d28e17f72");
}

TEST(Sha256, PiecesEqualTheWhole) {
  const std::string text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(text.data(), cut);
    hash.update(text.data() + cut, text.size() - cut);
    EXPECT_EQ(hash.hex(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
}

TEST(Sha256, EndsOnce) {
  Sha256 hash;
  hash.hex();
  EXPECT_THROW(hash.hex(), Error);
  EXPECT_THROW(hash.update("a", 1), Error);
}

}  // namespace
}  // namespace ct
