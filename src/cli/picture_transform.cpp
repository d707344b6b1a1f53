#include "cli/picture_transform.h"

#include "base/error.h"

namespace ct {

PictureTransform transform_of(const WeightsInfo& info, const std::string& checkpoint) {
  const SampleShape& sample = info.sample;
  if (sample.height == 0)
    fail(ExitCode::checkpoint, in_quotes(checkpoint),
         " lacks the size of its network's input; use a file of a run's folder");
  if (sample.height != sample.width || (sample.channels != 1 && sample.channels != 3))
    fail(ExitCode::checkpoint, in_quotes(checkpoint), ": its network takes images of ", to_string(sample),
         ", which no picture becomes; use another file");
  const auto side = static_cast<int>(sample.height);
  return {.size = side, .resize = info.resize > 0 ? static_cast<int>(info.resize) : side, .grey = sample.channels == 1};
}

}  // namespace ct
