#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ct {
namespace {

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc32c(std::string_view()), 0u);
  EXPECT_EQ(crc32c(std::string_view("123456789")), 0xE3069283u);
  // RFC 3720, B.4
  std::vector<std::byte> bytes(32, std::byte{0});
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAu);
  EXPECT_EQ(crc32c_tables(bytes), 0x8A9136AAu);
  bytes.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43u);
  for (size_t i = 0; i < 32; ++i) bytes[i] = std::byte(i);
  EXPECT_EQ(crc32c(bytes), 0x46DD794Eu);
  EXPECT_EQ(crc32c_tables(bytes), 0x46DD794Eu);
}

TEST(Crc32c, TablesAndInstructionAgreeInAnyPieces) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(1000);
  for (std::byte& b : bytes) b = std::byte(random());
  const std::span<const std::byte> all(bytes);
  for (size_t first = 0; first < 17; ++first) {
    for (size_t n : {0, 1, 7, 8, 9, 63, 64, 500, 983}) {
      const auto part = all.subspan(first, n);
      EXPECT_EQ(crc32c(part), crc32c_tables(part));
      const size_t cut = random() % (n + 1);
      EXPECT_EQ(crc32c(part), crc32c(part.subspan(cut), crc32c(part.first(cut))));
    }
  }
}

TEST(Crc32c, Combine) {
  std::mt19937 random(2);
  std::vector<std::byte> bytes(70000);
  for (std::byte& b : bytes) b = std::byte(random());
  const std::span<const std::byte> all(bytes);
  for (const size_t cut : {0, 1, 2, 7, 255, 256, 4097, 65536, 69999, 70000})
    EXPECT_EQ(crc32c_combine(crc32c(all.first(cut)), crc32c(all.subspan(cut)), bytes.size() - cut), crc32c(all)) << cut;
  // A terabyte of zeros in 40 doublings, against a shorter way to the same length.
  uint32_t zeros = crc32c(std::string_view("\0", 1));
  for (uint64_t n = 1; n < uint64_t{1} << 40; n *= 2) zeros = crc32c_combine(zeros, zeros, n);
  const uint32_t block = crc32c(std::vector<std::byte>(1 << 10));
  uint32_t same = block;
  for (uint64_t n = 1 << 10; n < uint64_t{1} << 40; n *= 2) same = crc32c_combine(same, same, n);
  EXPECT_EQ(zeros, same);
}

TEST(Crc32c, Text) {
  EXPECT_EQ(crc_text(0x00ab12EF), "00ab12ef");
  EXPECT_EQ(parse_crc("00ab12ef"), 0x00ab12EFu);
  for (const char* bad : {"", "0", "00AB12EF", "00ab12e", "00ab12ef0", "00ab12eg", " 0ab12ef"}) {
    EXPECT_FALSE(parse_crc(bad)) << bad;
  }
}

}  // namespace
}  // namespace ct
