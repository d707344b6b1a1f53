#include "data/description.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files.h"
#include "base/text.h"
#include "data/cifar/cifar_set.h"
#include "data/pictures/picture_set.h"

namespace ct {
namespace {

constexpr int64_t kEnough = 2000;  // images of a set whose images must be decoded

/// Are some images of both the same, byte for byte? A fingerprint of files is one of their names and sizes.
bool some_are_the_same(const DataSet& train, const DataSet& test) {
  const auto bytes = static_cast<size_t>(train.shape().bytes());
  if (bytes != static_cast<size_t>(test.shape().bytes())) return false;
  std::vector<uint8_t> one(bytes), other(bytes);
  const int64_t some = std::min<int64_t>(8, train.count());
  for (int64_t i = 0; i < some; ++i) {
    const int64_t at = i * train.count() / some;
    if (train.read(at, {}, one.data()) && test.read(at, {}, other.data()) && one != other) return false;
  }
  return true;
}

}  // namespace

ChannelStatistics channel_statistics(const DataSet& set) {
  const SampleShape& shape = set.shape();
  const auto channels = static_cast<size_t>(shape.channels), plane = shape.bytes() / channels;
  std::vector<uint64_t> sums(channels), squares(channels);
  std::vector<uint8_t> sample(shape.bytes());
  ChannelStatistics statistics;
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

std::optional<PictureSizes> picture_sizes(const DataSet& set) {
  const auto* const pictures = dynamic_cast<const PictureSet*>(&set);
  if (pictures == nullptr) return std::nullopt;
  std::optional<PictureSizes> sizes;
  std::vector<std::byte> scratch;
  const auto area = [](PictureSize size) { return int64_t{size.width} * size.height; };
  const int64_t wanted = std::min(set.count(), kEnough);
  for (int64_t n = 0; n < wanted; ++n) {
    const auto size = pictures->size_of(n * set.count() / wanted, scratch);
    if (!size) continue;
    if (!sizes) sizes = {.smallest = *size, .largest = *size};
    ++sizes->pictures;
    if (area(*size) < area(sizes->smallest)) sizes->smallest = *size;
    if (area(*size) > area(sizes->largest)) sizes->largest = *size;
  }
  return sizes;
}

std::vector<int64_t> class_counts(const DataSet& set) {
  std::vector<int64_t> counts(static_cast<size_t>(set.classes()));
  for (int64_t i = 0; i < set.count(); ++i) ++counts[static_cast<size_t>(set.label(i))];
  return counts;
}

std::vector<int64_t> class_counts(const DataSet& set, std::span<const uint32_t> images) {
  std::vector<int64_t> counts(static_cast<size_t>(set.classes()));
  for (const uint32_t image : images) ++counts[static_cast<size_t>(set.label(image))];
  return counts;
}

std::string class_line(const DataSet& set) {
  constexpr size_t kNamed = 8;
  const std::vector<int64_t> counts = class_counts(set);
  std::string text = str(counts.size(), " classes");
  if (counts.size() <= kNamed) {
    for (size_t c = 0; c < counts.size(); ++c) text += str(c == 0 ? ": " : ", ", set.class_names()[c], " ", counts[c]);
    return text;
  }
  const auto [least, most] = std::ranges::minmax(counts);
  return text + (least == most ? str(" of ", counted(most, "image")) : str(" of ", least, " to ", most, " images"));
}

std::vector<std::string> notes_of(const DataSet& set, Split split) {
  static constexpr std::array kUses = {"train", "test", "validate"};
  std::vector<std::string> notes = set.notes();
  const std::vector<int64_t> counts = class_counts(set);
  const auto none = std::ranges::count(counts, 0);
  if (none == 0) return notes;
  const auto first = static_cast<size_t>(std::ranges::find(counts, 0) - counts.begin());
  notes.push_back(str("no images of the class ", in_quotes(set.class_names()[first]),
                      none > 1 ? str(" and ", none - 1, " more") : "", " to ", kUses[static_cast<size_t>(split)],
                      " on"));
  return notes;
}

std::string repeated_images(const DataSet& set) {
  const auto* const files = dynamic_cast<const CifarSet*>(&set);
  const std::string repeated = files != nullptr ? files->repeated_in(*files) : "";
  return repeated.empty() ? "" : repeated + ": its images count twice, and those that it should have are missing";
}

std::string same_images(const DataSet& train, const DataSet& others, Split split) {
  const auto* const files = dynamic_cast<const CifarSet*>(&train);
  const auto* const other_files = dynamic_cast<const CifarSet*>(&others);
  const std::string repeated = files && other_files ? files->repeated_in(*other_files) : "";
  if (!repeated.empty()) return repeated + ", which trains, so accuracies do not measure generalisation: restore it";
  if (train.count() != others.count() || train.fingerprint() != others.fingerprint() ||
      !some_are_the_same(train, others))
    return "";
  const bool val = split == Split::val;
  return str("the ", val ? "validation" : "test",
             " images are the training images, so accuracies do not measure generalisation: give other images to ",
             val ? "validate" : "test", " on");
}

}  // namespace ct
