#include "data/replacement.h"

namespace ct {

int64_t read_sample(const DataSet& set, uint32_t image, const SampleKey& key, std::span<const uint32_t> others,
                    uint8_t* to) {
  if (set.read(image, key, to)) return image;
  if (others.empty()) return kLeftOut;
  constexpr int kMost = 100;
  Random draws = draws_of(key, image, kReplacementPlace);
  for (int i = 0; i < kMost; ++i) {
    const uint32_t other = others[draws.below(static_cast<uint32_t>(others.size()))];
    if (set.read(other, key, to)) return other;
  }
  fail(ExitCode::data, set.name(), ": ", kMost,
       " images drawn in place of a damaged one are all damaged; check the set "
       "with: cifar-train data verify");
}

}  // namespace ct
