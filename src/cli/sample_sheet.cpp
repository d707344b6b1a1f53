#include "cli/sample_sheet.h"

#include <algorithm>

#include "metrics/png.h"
#include "train/run/evaluation_files.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

constexpr int64_t kColumns = 10, kBorder = 2;  // images in a row; px around each
constexpr int64_t kManyImages = 1000;
constexpr uint8_t kPaper = 255;

/// Images of a class, so that those of all classes are about kManyImages at most, and whole classes fill a row.
int64_t images_of_each(int64_t classes) {
  for (const int64_t each : {int64_t{10}, int64_t{5}, int64_t{2}})
    if (each * classes <= kManyImages) return each;
  return 1;
}

/// The numbers of `most` images of each class, which lie evenly in the set.
std::vector<std::vector<int64_t>> choice(const DataSet& set, int64_t most) {
  std::vector<std::vector<int64_t>> images(static_cast<size_t>(set.classes()));
  for (int64_t i = 0; i < set.count(); ++i) images[static_cast<size_t>(set.label(i))].push_back(i);
  for (std::vector<int64_t>& of_class : images) {
    const auto there = static_cast<int64_t>(of_class.size()), taken = std::min(there, most);
    for (int64_t n = 0; n < taken; ++n)
      of_class[static_cast<size_t>(n)] = of_class[static_cast<size_t>(n * there / taken)];
    of_class.resize(static_cast<size_t>(taken));
  }
  return images;
}

}  // namespace

SampleSheet sample_sheet(const DataSet& set) {
  const SampleShape& shape = set.shape();
  if (shape.channels != 1 && shape.channels != 3)
    fail(ExitCode::usage, "--sheet: images of ", shape.channels, " channels cannot be shown; leave it out");
  const int64_t classes = set.classes();
  SampleSheet sheet{.each = images_of_each(classes)};
  sheet.classes = kColumns / sheet.each;
  std::vector<uint8_t> pixels(shape.bytes());
  const SmallPicture first = small_picture(pixels, shape, kLargestPicture);
  const int64_t height = first.height + kBorder, width = first.width + kBorder,
                rows = (classes + sheet.classes - 1) / sheet.classes;
  const int64_t row_bytes = (kColumns * width + kBorder) * shape.channels;
  std::vector<uint8_t> all(static_cast<size_t>((rows * height + kBorder) * row_bytes), kPaper);
  const std::vector<std::vector<int64_t>> chosen = choice(set, sheet.each);
  for (size_t c = 0; c < chosen.size(); ++c)
    for (size_t n = 0; n < chosen[c].size(); ++n) {
      if (!set.read(chosen[c][n], {}, pixels.data())) continue;
      const SmallPicture small = small_picture(pixels, shape, kLargestPicture);
      const auto of_class = static_cast<int64_t>(c);
      const int64_t column = of_class % sheet.classes * sheet.each + static_cast<int64_t>(n),
                    row = of_class / sheet.classes;
      for (int64_t y = 0; y < small.height; ++y)
        std::copy_n(
            small.pixels.begin() + y * small.width * shape.channels, small.width * shape.channels,
            all.begin() + (row * height + kBorder + y) * row_bytes + (column * width + kBorder) * shape.channels);
    }
  sheet.png = png_of(all, kColumns * width + kBorder, shape.channels, kProgramName);
  return sheet;
}

}  // namespace ct
