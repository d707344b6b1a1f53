// Several runs beside each other: in which keys they differ, and which settings are best.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report/run_parts.h"

namespace ct::report {

/// The keys that have not the same value in all runs, and those of `varied` that a run has, in the order of the
/// configuration; without `output`, which every run has for itself.
std::vector<std::string> differing_keys(std::span<const RunParts> runs, std::span<const std::string> varied = {});

/// Runs that differ by their seeds and folds only.
struct Settings {
  std::string text;            // "optimizer.params.lr=0.01, train.epochs=2"; "as configured"
  std::vector<size_t> runs;    // indices
  std::vector<double> scores;  // the accuracy of each evaluated run's best evaluation, 0 to 1
  double mean = 0, deviation = 0;
};
std::vector<Settings> settings_of(std::span<const RunParts> runs, std::span<const std::string> varied = {});

/// The weights_sha256 that all runs ended with; empty: they have none, or not the same.
std::string common_weights(std::span<const RunParts> runs);

/// What the best of something was chosen by.
struct Best {
  size_t index = 0;
  EvaluatedSplit by = EvaluatedSplit::val;
};
/// The settings, or the run, with the highest (mean) accuracy; nullopt if there is one only, or another is as good, or
/// some run was not evaluated, or runs were evaluated on different splits.
std::optional<Best> best_settings(std::span<const RunParts> runs, const std::vector<Settings>& settings);
std::optional<Best> best_run(std::span<const RunParts> runs);

}  // namespace ct::report
