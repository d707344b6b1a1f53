// The runs of a sweep: every combination of its settings, each with every fold and seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config/load.h"

namespace ct {

/// The options of the command line.
struct SweepWords {
  std::vector<std::string> grid;   // "KEY=VALUE,VALUE": combined with all values of the other grids
  std::vector<std::string> cases;  // "KEY=VALUE KEY=VALUE": settings that belong together
  int64_t folds = 0;               // of the training images, each of which validates once; 0: as configured
  int64_t repeats = 1;             // number of seeds, from the configuration's on
};

/// A key of the configuration and its value, YAML in flow style.
struct Setting {
  std::string key, value, option;                         // option: "--grid", "--case", "--folds" or "--repeats"
  std::string text() const { return key + "=" + value; }  // as --set takes it
};

struct SweepRun {
  std::vector<Setting> settings;  // all but the fold and the seed
  std::string fold, seed;         // fold: "2/5"; empty: as configured
  /// "train.epochs=2, fold=2of5, seed=7", without fold and seed if `with_seed` is false; empty: as configured.
  std::string text(bool with_seed) const;
  /// The name of its folder, which is unique in the sweep.
  std::string folder() const;
  /// Its settings, each with its option.
  std::vector<ConfigOverride> overrides() const;
};

/// All runs in the order of the options: seeds change fastest, then folds, then the last grid. Error(usage) for
/// malformed words; keys and values are checked when the configurations are loaded.
std::vector<SweepRun> plan_sweep(const SweepWords& words, int64_t first_seed);

}  // namespace ct
