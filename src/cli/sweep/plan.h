// What a sweep runs: every combination of its settings, each with every seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config/load.h"

namespace ct {

/// Words of the command line.
struct SweepWords {
  std::vector<std::string> grid;   // "KEY=VALUE,VALUE": each value with each of the other keys'
  std::vector<std::string> cases;  // "KEY=VALUE KEY=VALUE": settings that belong together
  int64_t repeats = 1;             // seeds, from the configuration's on
};

/// A key of the configuration and its value, YAML in flow style.
struct Setting {
  std::string key, value, option;                         // "--grid", "--case" or "--repeats", which it is of
  std::string text() const { return key + "=" + value; }  // as --set takes it
};

struct SweepRun {
  std::vector<Setting> settings;  // all but the seed
  std::string seed;
  /// "train.epochs=2, seed=7", without the seed where `with_seed` is false; empty: as configured.
  std::string text(bool with_seed) const;
  /// Of its folder: another one for every other run.
  std::string folder() const;
  /// What it sets, each by the option that it came from.
  std::vector<ConfigOverride> overrides() const;
};

/// All runs in the order of the words: seeds change fastest, then the last grid. Error(usage) for words that make no
/// sense; whether there are such keys, and take such values, loading their configurations tells.
std::vector<SweepRun> plan_sweep(const SweepWords& words, int64_t first_seed);

}  // namespace ct
