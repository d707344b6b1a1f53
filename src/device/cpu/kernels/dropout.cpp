#include "device/cpu/kernels/dropout.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/dropout.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr hn::RebindToUnsigned<D> du;
using VU = hn::Vec<decltype(du)>;

#if HWY_TARGET == HWY_SCALAR
/// The four words of Philox for the blocks from `first` on, one in each lane.
HWY_INLINE void draw(const std::array<uint32_t, 4>& counter, uint64_t key, uint32_t first, VU (&words)[4]) {
  const std::array<uint32_t, 4> block = philox({first, counter[1], counter[2], counter[3]}, key);
  for (size_t w = 0; w < 4; ++w) words[w] = hn::Set(du, block[w]);
}
#else
constexpr hn::Repartition<uint64_t, decltype(du)> du64;
using VU64 = hn::Vec<decltype(du64)>;

/// Four words of which the lower halves of 64 bits count: what is above them is nobody's number.
struct Words {
  VU64 c0, c1, c2, c3;
};
HWY_INLINE Words philox_round(const Words& c, uint32_t k0, uint32_t k1) {
  const auto product = [](VU64 a, uint32_t by) HWY_ATTR { return hn::MulEven(hn::BitCast(du, a), hn::Set(du, by)); };
  const VU64 a = product(c.c0, 0xD2511F53u), b = product(c.c2, 0xCD9E8D57u);
  return {hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c.c1), hn::Set(du64, k0)), b,
          hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c.c3), hn::Set(du64, k1)), a};
}

/// The four words of Philox (base/random.h) for the blocks from `first` on, one in each lane: even blocks and odd ones
/// are drawn apart, with room for the products, and lie in turn at last.
HWY_INLINE void draw(const std::array<uint32_t, 4>& counter, uint64_t key, uint32_t first, VU (&words)[4]) {
  const auto start = [&](uint32_t block) HWY_ATTR {
    const VU64 blocks = hn::Add(hn::Iota(du64, 0), hn::Iota(du64, 0));
    return Words{hn::Add(blocks, hn::Set(du64, block)), hn::Set(du64, counter[1]), hn::Set(du64, counter[2]),
                 hn::Set(du64, counter[3])};
  };
  Words even = start(first), odd = start(first + 1);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    even = philox_round(even, k0, k1);
    odd = philox_round(odd, k0, k1);
  }
  const auto in_turn = [](VU64 a, VU64 b)
                           HWY_ATTR { return hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(b)), hn::BitCast(du, a)); };
  words[0] = in_turn(even.c0, odd.c0);
  words[1] = in_turn(even.c1, odd.c1);
  words[2] = in_turn(even.c2, odd.c2);
  words[3] = in_turn(even.c3, odd.c3);
}
#endif

/// Calls body(i, keep) for the vectors of the group of elements that begins with block `first`: i is the first
/// element's place in the group, keep its mask.
template <class Body>
HWY_INLINE void for_group(const std::array<uint32_t, 4>& counter, uint64_t key, uint32_t below, uint32_t first,
                          Body&& body) {
  const V most = hn::Set(d, static_cast<float>(below));
  const hn::RebindToSigned<D> di;
  for (int lane = 0; lane < kDropoutLanes; lane += kLanes) {
    VU words[4];
    draw(counter, key, first + static_cast<uint32_t>(lane), words);
    unroll<8>([&](auto which) CT_UNROLLED {
      const VU word = words[which / 2];
      const VU bits = which % 2 == 1 ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(du, 0xFFFF));
      body(which * kDropoutLanes + lane, hn::Lt(hn::ConvertTo(d, hn::BitCast(di, bits)), most));
    });
  }
}

template <class T>
HWY_INLINE void dropout_pass(const DropoutArgs<T>& a) {
  const std::array<uint32_t, 4> counter = dropout_counter(*a.key, a.number);
  const V scale = hn::Set(d, a.scale);
  uint32_t block = 0;
  int64_t group = 0;
  for (; group + kDropoutGroup <= a.n; group += kDropoutGroup, block += static_cast<uint32_t>(kDropoutLanes))
    for_group(counter, a.key->seed, a.below, block, [&](int64_t i, auto keep) CT_UNROLLED {
      const V x = load(d, a.x + group + i);
      store(d, hn::IfThenElseZero(keep, hn::Mul(x, scale)), a.y + group + i);
    });
  if (group == a.n) return;
  float kept[kDropoutGroup];
  for_group(counter, a.key->seed, a.below, block, [&](int64_t i, auto keep) CT_UNROLLED {
    hn::StoreU(hn::IfThenElseZero(keep, hn::Set(d, 1.0f)), d, kept + i);
  });
  for_elements(a.n - group, [&](auto dv, int64_t i) CT_UNROLLED {
    const auto keep = hn::Gt(hn::LoadU(dv, kept + i), hn::Zero(dv));
    const auto x = load(dv, a.x + group + i);
    store(dv, hn::IfThenElseZero(keep, hn::Mul(x, hn::Set(dv, a.scale))), a.y + group + i);
  });
}
CT_TYPED_TARGET(Dropout, dropout_pass, DropoutArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
CT_TYPED_KERNEL(dropout, Dropout, DropoutArgs)
}  // namespace ct::cpu
#endif
