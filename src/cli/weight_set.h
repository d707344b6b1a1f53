// --ema and --no-ema of verbs that read a weights file: select the weights or their moving average, if the file has
// both.
#pragma once

#include "cli/verbs.h"
#include "train/weights.h"

namespace ct {

/// Must outlive the parsing.
class WeightSetOptions {
 public:
  void add_to(CLI::App& app);
  /// The requested set, otherwise the one that the file's run evaluated. Error(checkpoint) if the file has no average.
  WeightSet of(const SafetensorsFile& file) const;

 private:
  bool ema_ = false, no_ema_ = false;
};

/// "the moving average of the weights, as its run evaluated (--no-ema takes the other)": the selected set of a file
/// that has both; empty: the file has one set.
std::string weight_set_note(const SafetensorsFile& file, WeightSet taken);

}  // namespace ct
