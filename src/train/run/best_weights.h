// The weights of a run's best evaluation: best.bin, and for every checkpoint a copy of best.bin at that step
// (ckpt/best-00000120.bin), which resuming from that checkpoint restores. For rank 0.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "train/config/config.h"
#include "train/run/run_files.h"
#include "train/run/run_state.h"

namespace ct {

/// The best evaluation, as in RunState; step -1: none.
struct BestEvaluation {
  int64_t step = -1;
  double value = 0;
};

/// The metadata that only best.bin has: how it was selected. `value` is that of train.best.metric.
Metadata selection_metadata(const Config& config, double value);

/// Removes the copies beside checkpoints that are gone or never were, and pieces of copies. `out` is the run's folder.
void remove_spare_best(FileSystem& files, const Path& out, const Store& store);

/// Manages these files. A file is used only if it is complete, of this model and of the expected evaluation. For every
/// other file, `warn` receives one line that says what is wrong and what is done instead.
class BestWeights {
 public:
  using Warn = std::function<void(const std::string&)>;
  /// `out` is the run's folder. `files` and `config` must outlive this.
  BestWeights(FileSystem& files, const Path& out, const Config& config, Warn warn);

  /// Restores best.bin as it was at `checkpoint`, which may be of another run; `state` is the checkpoint's. If those
  /// weights are lost, the best of the remaining ones replace them; step -1: none remain, and the next evaluation is
  /// the best. Error(io) if they may be in a file that cannot be read.
  BestEvaluation return_to(const Path& checkpoint, const RunState& state);
  /// Does the same as return_to() during training, if best.bin was removed or changed since the last check. If the disk
  /// fails to read it or its copies, a warning says so, and the next call looks again.
  BestEvaluation look_after(const RunState& state);
  /// What is wrong with best.bin, which should have the weights of one of these two steps; empty: nothing.
  std::string problem_unless_of(int64_t step, int64_t or_step) const;

 private:
  struct Candidate {
    Path path;
    std::string problem;          // the reason why it is not the expected file; empty: it is
    int64_t step = -1;            // -1: the file is not complete
    bool unreadable = false;      // the disk fails: nothing is known of the file
    std::optional<double> value;  // if this run's train.best selected it
  };
  /// Device, inode, size and time of change, which identify an unchanged file without reading it.
  using Stamp = std::array<int64_t, 5>;

  Path best() const { return out_ / kBestFile; }
  Candidate candidate(const Path& path, std::optional<int64_t> wanted_step = {}) const;
  struct Choice {
    std::optional<Candidate> weights;
    std::string unread;  // why others, which may be better, could not be read; empty: these are right, or all were read
  };
  Choice choose(const std::vector<Candidate>& expected, const std::vector<Path>& others, const RunState& state) const;
  void warn_of(const std::vector<Candidate>& expected, const std::optional<Candidate>& chosen,
               const RunState& state) const;
  BestEvaluation put_in_place(const std::optional<Candidate>& chosen, const RunState& state);
  std::optional<Stamp> stamp() const;

  FileSystem& files_;
  Path out_;
  const Config& config_;
  Warn warn_;
  std::optional<Stamp> seen_;  // of best.bin when it was last found valid
};

}  // namespace ct
