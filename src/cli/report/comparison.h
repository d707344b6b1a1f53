// Several runs beside each other: in which keys they differ, and which settings are best.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report/run_parts.h"
#include "cli/report/sweep_parts.h"
#include "cli/sweep/results.h"

namespace ct::report {

/// The keys that have not the same value in all runs, and those of `varied` that a run has, in the order of the
/// configuration; without `output`, which every run has for itself.
std::vector<std::string> differing_keys(std::span<const RunParts> runs, std::span<const std::string> varied = {});

/// "runs/rates: lr=0.01, seed=1": the name of a sweep's run beside others, by the values of the keys that the sweep
/// varies, each by the last part of its name if no other has it; without seed and fold unless it is `one` run of
/// several repeats. Of another run its own name.
std::string name_beside_others(const RunParts& run, bool one);

/// Runs that differ by their seeds and folds only; of a sweep beside other runs, no others.
struct Settings {
  std::string text;          // "optimizer.params.lr=0.01, train.epochs=2"; "as configured"
  std::vector<size_t> runs;  // indices
  RunScores scores;          // of each evaluated run's best evaluation, but of runs that failed in a sweep
  double mean = 0, deviation = 0;
};
std::vector<Settings> settings_of(std::span<const RunParts> runs, std::span<const std::string> varied = {});

/// The weights_sha256 that all runs ended with; empty: they have none, or not the same.
std::string common_weights(std::span<const RunParts> runs);

/// The best settings, as `sweep` names them (best_of()), and the images that judged them.
struct Best {
  size_t index = 0;
  EvaluatedSplit by = EvaluatedSplit::val;
};
struct Comparison {
  std::vector<std::string> varied;  // keys that tell the runs of a sweep apart, whether or not they differ yet
  std::vector<Settings> settings;
  std::string weights;  // common_weights()
  std::optional<Best> best;
  std::string why_none;  // why none is the best: "not all runs of the sweep are here"; empty: there is nothing to say
};
Comparison compare(std::span<const RunParts> runs, const std::optional<SweepParts>& sweep);
/// Which is the best, or why none is, in a sentence for a terminal; empty: there is nothing to say.
std::string best_in_words(const Comparison& all, std::span<const RunParts> runs);

}  // namespace ct::report
