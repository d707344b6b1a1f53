// What the evaluation at a run's end found, for reports: evaluation.json, and evaluation.png with small pictures of the
// images that were answered most confidently, rightly and wrongly. Both are the same on any number of ranks.
#pragma once

#include <array>

#include "data/pipeline.h"
#include "train/evaluation.h"

namespace ct {

/// At most so many images of either kind are shown.
inline constexpr size_t kShownPictures = 32;
/// The sheet has so many pictures in a row, each at most so many px wide and high.
inline constexpr int64_t kSheetColumns = 8, kLargestPicture = 64;

/// The images that were answered rightly with the highest probability of their class, and those that were answered
/// wrongly with the highest probability of the answer; of equal ones the first. At most `most` of either, as indices of
/// `opinions`.
struct Confident {
  std::vector<size_t> right, wrong;
};
Confident most_confident(const std::vector<Evaluation::Opinion>& opinions, size_t most);

/// A picture [channels][height][width] made smaller, by the means of squares of pixels, until it is at most `largest`
/// px wide and high, as [height][width][channels].
struct SmallPicture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
};
SmallPicture small_picture(std::span<const uint8_t> pixels, const SampleShape& shape, int64_t largest);

/// Writes both files into the run's folder. `evaluation` has the opinions; `step` is that of the weights. Images that
/// have neither one nor three channels are not shown. Throws Error.
void write_evaluation(FileSystem& files, const Path& run, const Evaluation& evaluation, const EvalPipeline& images,
                      int64_t step);

}  // namespace ct
