#include "copy.h"

#include <gtest/gtest.h>

#include "buffer.h"
#include "run.h"

namespace ct::kernels {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes some_bytes(size_t n) {
  Bytes bytes(n);
  uint32_t state = 1;
  for (unsigned char& b : bytes) b = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

TEST(Copy, MovesEveryByteAndNoOther) {
  // Less than a pack, packs with a rest, a block's 4 x 256 packs, and more than one block.
  for (const size_t n : {0, 1, 17, 4096 + 16, 16384, 16384 + 37})
    for (const size_t from_shift : {0, 1, 8})
      for (const size_t to_shift : {0, 3}) {
        if (n > 10000 && from_shift + to_shift != 0) continue;  // bytes one by one: many blocks
        SCOPED_TRACE(testing::Message() << n << " bytes, shifted by " << from_shift << " and " << to_shift);
        const Bytes bytes = some_bytes(n);
        Buffer<unsigned char> from(n, from_shift);
        for (size_t i = 0; i < bytes.size(); ++i) from.at(i) = bytes[i];
        on_host::in_all_orders([&] {
          Buffer<unsigned char> to(n, to_shift);
          ASSERT_EQ(copy({.from = from.data(), .to = to.data(), .bytes = static_cast<int64_t>(n)}, nullptr),
                    cudaSuccess);
          EXPECT_EQ(to.bytes(), bytes);
        });
        EXPECT_EQ(from.bytes(), bytes);
      }
}

TEST(Copy, ReadsNothingOutside) {  // AddressSanitizer's to see: the source ends where its bytes do
  for (const size_t n : {1, 16, 31, 4097}) {
    const Bytes bytes = some_bytes(n);
    const Operand<unsigned char> from(bytes.begin(), bytes.end());
    Buffer<unsigned char> to(n);
    ASSERT_EQ(copy({.from = from.data(), .to = to.data(), .bytes = static_cast<int64_t>(n)}, nullptr), cudaSuccess);
    EXPECT_EQ(to.bytes(), bytes);
  }
}

}  // namespace
}  // namespace ct::kernels
