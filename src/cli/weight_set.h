// --ema and --no-ema of verbs that read a file of weights: which of its weights are meant, where it has their moving
// average too.
#pragma once

#include "cli/verbs.h"
#include "train/weights.h"

namespace ct {

/// Outlives the parsing.
class WeightSetOptions {
 public:
  void add_to(CLI::App& app);
  /// Those asked for, or else those that the file's run evaluated. Error(checkpoint) where the file has no average.
  WeightSet of(const SafetensorsFile& file) const;

 private:
  bool ema_ = false, no_ema_ = false;
};

/// "the moving average of the weights, as its run evaluated (--no-ema takes the other)": what was taken of a file that
/// has both; empty: it has not.
std::string weight_set_note(const SafetensorsFile& file, WeightSet taken);

}  // namespace ct
