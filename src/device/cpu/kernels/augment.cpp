#include "device/cpu/kernels/augment.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/augment.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

void Augment(const AugmentArgs& a) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const uint8_t *first = a.images, *last = a.images + a.count * a.channels * a.height * a.width;
  alignas(64) uint8_t line[kMaxAugmentWidth + 16], keep[kMaxAugmentWidth + 16] = {};
  for (int64_t n = 0; n < a.n; ++n) {
    const int64_t number = a.index != nullptr ? int64_t{a.index[n]} : n;
    if (number < 0 || number >= a.count) {
      const int64_t elements = a.channels * a.height * a.width;
      std::fill_n(a.out + n * elements, elements, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    const int64_t dy = a.draws[4 * n], dx = a.draws[4 * n + 1];
    const bool flip = a.draws[4 * n + 2] != 0;
    // Columns [begin, end) of the crop lie inside the image.
    const int64_t begin = std::clamp<int64_t>(-dx, 0, a.width), end = std::clamp<int64_t>(a.width - dx, begin, a.width);
    std::memset(keep, 0, a.width);
    std::memset(keep + begin, 0xFF, end - begin);
    for (int64_t c = 0; c < a.channels; ++c) {
      const uint8_t* plane = a.images + (number * a.channels + c) * a.height * a.width;
      float* out = a.out + (n * a.channels + c) * a.height * a.width;
      const V scale = hn::Set(d, a.scale[c]), shift = hn::Set(d, a.shift[c]);
      const auto convert = [&](const uint8_t* row, int64_t i) CT_UNROLLED {
        const auto pixels = hn::And(hn::LoadU(d8, row + i), hn::LoadU(d8, keep + i));
        return hn::MulAdd(hn::ConvertTo(d, hn::PromoteTo(di, pixels)), scale, shift);
      };
      for (int64_t y = 0; y < a.height; ++y, out += a.width) {
        if (y + dy < 0 || y + dy >= a.height) {
          std::fill_n(out, a.width, a.shift[c]);
          continue;
        }
        // A moved row is read from its neighbours on, which `keep` blanks; not so at the ends of the buffer.
        const uint8_t* row = plane + (y + dy) * a.width;
        if (row + std::min<int64_t>(dx, 0) < first || row + std::max<int64_t>(dx, 0) + a.width + 16 > last) {
          std::memcpy(line + begin, row + begin + dx, end - begin);
          row = line;
        } else {
          row += dx;
        }
        int64_t i = 0;
        if (flip) {
          for (; i + kLanes <= a.width; i += kLanes)
            hn::StoreU(hn::Reverse(d, convert(row, i)), d, out + a.width - kLanes - i);
        } else {
          for (; i + kLanes <= a.width; i += kLanes) hn::StoreU(convert(row, i), d, out + i);
        }
        if (i < a.width) {
          alignas(64) float rest[16];
          hn::Store(convert(row, i), d, rest);
          for (int64_t j = 0; i < a.width; ++i, ++j) out[flip ? a.width - 1 - i : i] = rest[j];
        }
      }
    }
  }
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Augment);

void augment(const AugmentArgs& args) {
  check(args.width <= kMaxAugmentWidth, "augment: images of width ", args.width, ", at most ", kMaxAugmentWidth);
  HWY_DYNAMIC_DISPATCH(Augment)(args);
}
}  // namespace ct::cpu
#endif
