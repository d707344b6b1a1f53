#include "data/statistics.h"

#include <algorithm>
#include <cmath>

namespace ct {

ChannelStatistics channel_statistics(const DataSet& set) {
  const SampleShape& shape = set.shape();
  const auto channels = static_cast<size_t>(shape.channels), plane = shape.bytes() / channels;
  std::vector<uint64_t> sums(channels), squares(channels);
  std::vector<uint8_t> sample(shape.bytes());
  ChannelStatistics statistics;
  constexpr int64_t kEnough = 2000;
  const int64_t wanted = set.direct() ? set.count() : std::min(set.count(), kEnough);
  for (int64_t n = 0; n < wanted; ++n) {
    const int64_t i = n * set.count() / wanted;
    if (!set.read(i, {}, sample.data())) continue;
    ++statistics.images;
    for (size_t c = 0; c < channels; ++c) {
      uint64_t sum = 0, square = 0;
      for (size_t j = c * plane; j < (c + 1) * plane; ++j) {
        sum += sample[j];
        square += uint32_t{sample[j]} * sample[j];
      }
      sums[c] += sum;
      squares[c] += square;
    }
  }
  if (statistics.images == 0)
    fail(ExitCode::data, set.name(), ": none of ", wanted, " images can be decoded; see cifar-train data verify");
  const double pixels = static_cast<double>(statistics.images) * static_cast<double>(plane);
  for (size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums[c]) / pixels;
    statistics.mean.push_back(mean / 255);
    statistics.std.push_back(std::sqrt(static_cast<double>(squares[c]) / pixels - mean * mean) / 255);
  }
  return statistics;
}

std::vector<int64_t> class_counts(const DataSet& set) {
  std::vector<int64_t> counts(static_cast<size_t>(set.classes()));
  for (int64_t i = 0; i < set.count(); ++i) ++counts[static_cast<size_t>(set.label(i))];
  return counts;
}

}  // namespace ct
