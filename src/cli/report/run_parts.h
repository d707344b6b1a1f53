// A run as its folder shows it: every part is read as far as it can be, and what cannot be read is named.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "cli/report/final_evaluation.h"
#include "cli/report/run_records.h"

namespace ct::report {

/// A key of config.yaml, such as train.epochs, with its value as YAML.
struct ConfigKey {
  std::string key, value;
  std::string origin;  // as `config show` prints it, by the run's `start` record; empty: not recorded
};

struct SavedStep {
  int64_t step = 0;
  uint64_t bytes = 0;  // of the files that its manifest lists; 0: it cannot be read
  size_t files = 0;
  size_t not_finite = 0;  // tensors
  bool damaged = false;
};

struct RunParts {
  Path folder;
  std::string name;   // the folder as the user gave it; in a sweep, its name there
  std::string sweep;  // the folder of its sweep, beside which there are other runs; empty: it stands for itself
  std::vector<std::string> varied;  // the keys that this sweep varies
  int64_t code = 0;                 // the exit code of its process, by the records of its sweep; 0: no failure is known
  RunRecords records;
  std::time_t written = 0;  // the newest record; 0: there is no file
  std::vector<ConfigKey> config;
  std::vector<SavedStep> checkpoints;  // ascending
  std::optional<FinalEvaluation> evaluation;
  std::vector<std::string> classes;  // names for records.per_class; empty: not known
  std::optional<bool> in_use;        // by a process that trains; nullopt: by one of another host, perhaps
  std::string failure;  // the error with which the log beside it ends, of a run that `sweep` or `compare` began
  std::vector<std::string> missing;  // a line for each part that is damaged: the part and why
  bool unreadable = false;           // a part, by a disk that fails

  /// The value of a key; empty: the configuration has none.
  std::string value(std::string_view key) const;
  /// "finished", "stopped early", "stopped": the reason in the last `end` record; empty: there is none since the start.
  std::string reason() const;
  /// Has its process failed, by its sweep, although its own records tell of an end?
  bool contradicts_sweep() const;
};

/// Does the folder have a file or folder of a run's name? A run that is being made may have one of them only.
bool may_be_run(const Path& folder);
/// Reads what is there. Nothing in the folder makes it throw, but for a system without memory.
RunParts read_run(const Path& folder, const std::string& name);
/// Has anything of a run been found?
bool is_run(const RunParts& run);

/// The evaluation of the weights in best.bin: the one that the `end` record names, or the newest. nullptr: none.
const EvalRecord* best_evaluation(const RunRecords& records);
/// The newest evaluation of that split; nullptr: none.
const EvalRecord* newest_evaluation(const RunRecords& records, EvaluatedSplit split);

}  // namespace ct::report
