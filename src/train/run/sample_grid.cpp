#include "train/run/sample_grid.h"

#include "metrics/image_grid.h"
#include "metrics/png.h"
#include "train/run/run_files.h"

namespace ct {

bool write_sample_grid(FileSystem& files, const Path& run, const Pipeline& images, std::span<const double> mean,
                       std::span<const double> std) {
  constexpr int64_t kMost = 256;
  const auto [channels, height, width] = images.sample();
  if (channels != 1 && channels != 3) return false;
  const std::vector<uint8_t> bytes = images.first_samples(kMost);
  std::vector<float> values(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t channel = i / static_cast<size_t>(height * width) % static_cast<size_t>(channels);
    const auto of_channel = [&](std::span<const double> numbers) {
      return static_cast<float>(numbers[numbers.size() == 1 ? 0 : channel]);
    };
    values[i] = (static_cast<float>(bytes[i]) / 255 - of_channel(mean)) / of_channel(std);
  }
  const ImageGrid grid = image_grid(values, channels, height, width);
  write_file_atomic(files, run / kSampleGridFile, png_of(grid.pixels, grid.width, channels, kProgramName));
  return true;
}

}  // namespace ct
