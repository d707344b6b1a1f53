#include "copy.h"

#include <gtest/gtest.h>

#include <memory>

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

TEST(RingCopy, TakesSlotAfterSlot) {
  constexpr int kSlots = 3;
  for (const size_t n : {1, 48, 4096 * 5, 16391})  // a block's 1024 threads take packs or bytes in turns
    for (const bool to_ring : {true, false}) {
      SCOPED_TRACE(testing::Message() << n << " bytes, to the ring: " << to_ring);
      const Bytes bytes = some_bytes(kSlots * n);
      on_host::in_all_orders([&] {
        Buffer<unsigned char> value(n), ring(kSlots * n);
        Buffer<int32_t> turn(1);
        turn.at(0) = 0;
        if (!to_ring)
          for (size_t i = 0; i < bytes.size(); ++i) ring.at(i) = bytes[i];
        for (int launch = 0; launch < kSlots + 2; ++launch) {
          const size_t slot = static_cast<size_t>(launch % kSlots) * n;
          if (to_ring)
            for (size_t i = 0; i < n; ++i) value.at(i) = bytes[slot + i];
          const RingCopyArgs copy{.value = value.data(),
                                  .ring = ring.data(),
                                  .to_ring = to_ring,
                                  .bytes = static_cast<int64_t>(n),
                                  .slots = kSlots,
                                  .turn = turn.data()};
          ASSERT_EQ(ring_copies({&copy, 1}, nullptr), cudaSuccess);
          for (size_t i = 0; i < n; ++i) ASSERT_EQ(to_ring ? ring[slot + i] : value[i], bytes[slot + i]);
        }
        EXPECT_EQ(turn[0], 2);
      });
    }
}

/// Rings of several sizes by one launch, one of which another launch has served before.
TEST(RingCopies, EachHasItsOwnTurn) {
  constexpr size_t kSizes[] = {16, 5, 4096};
  on_host::in_all_orders([&] {
    std::vector<std::unique_ptr<Buffer<unsigned char>>> values, rings;
    Buffer<int32_t> turns(3);
    std::vector<RingCopyArgs> copies;
    for (size_t i = 0; i < 3; ++i) {
      values.push_back(std::make_unique<Buffer<unsigned char>>(kSizes[i]));
      rings.push_back(std::make_unique<Buffer<unsigned char>>(2 * kSizes[i]));
      turns.at(i) = 0;
    }
    for (size_t i = 0; i < 3; ++i)
      copies.push_back({.value = values[i]->data(),
                        .ring = rings[i]->data(),
                        .to_ring = true,
                        .bytes = static_cast<int64_t>(kSizes[i]),
                        .slots = 2,
                        .turn = turns.data() + i});
    const auto fill = [&](unsigned char with) {
      for (size_t i = 0; i < 3; ++i)
        for (size_t k = 0; k < kSizes[i]; ++k) values[i]->at(k) = with;
    };
    fill(1);
    ASSERT_EQ(ring_copies({copies.data() + 1, 1}, nullptr), cudaSuccess);
    fill(2);
    ASSERT_EQ(ring_copies(copies, nullptr), cudaSuccess);
    for (size_t k = 0; k < 5; ++k) EXPECT_EQ(rings[1]->at(k), 1);
    for (size_t i = 0; i < 3; ++i) {
      const size_t slot = i == 1 ? kSizes[i] : 0;
      for (size_t k = 0; k < kSizes[i]; ++k) EXPECT_EQ(rings[i]->at(slot + k), 2);
      EXPECT_EQ(turns.at(i), i == 1 ? 0 : 1);
    }
  });
}

}  // namespace
}  // namespace ct::kernels
