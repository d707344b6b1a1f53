// The weights of a run's best evaluation: best.bin, and beside every checkpoint best.bin as it was then
// (ckpt/best-00000120.bin), which going on from that checkpoint returns to. For rank 0.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "train/config/config.h"
#include "train/run/run_files.h"
#include "train/run/run_state.h"

namespace ct {

/// The best evaluation, as RunState has it; step -1: none.
struct BestEvaluation {
  int64_t step = -1;
  double value = 0;
};

/// How best.bin was chosen, which it says beside what all weights files say. `value`: of train.best.metric.
Metadata selection_metadata(const Config& config, double value);

/// Looks after these files: none is trusted that is not whole, of this model and of the evaluation that it should be
/// of. `warn` gets a line for each that is not, with what was done about it.
class BestWeights {
 public:
  using Warn = std::function<void(const std::string&)>;
  /// `out` is the run's folder. `files` and `config` must outlive this.
  BestWeights(FileSystem& files, const Path& out, const Config& config, Warn warn);

  /// Goes back to what was best at that checkpoint of this or another run, whose state is given. Where those weights
  /// are lost, the best of what is left takes their place; step -1: nothing is left, the next evaluation is the best.
  BestEvaluation return_to(const Path& checkpoint, const RunState& state);
  /// Does what return_to() does, while training, where best.bin was removed or changed since this looked last.
  BestEvaluation look_after(const RunState& state);
  /// What is wrong with best.bin, which should be of one of these two steps; empty: nothing.
  std::string problem_unless_of(int64_t step, int64_t or_step) const;

 private:
  struct Candidate {
    Path path;
    std::string problem;          // why it is not the one that it should be; empty: it is
    int64_t step = -1;            // -1: it is not whole
    std::optional<double> value;  // where this run's train.best chose it
  };
  /// Device, inode, bytes and time of a change, which tell whether a file is the same without reading it.
  using Stamp = std::array<int64_t, 5>;

  Path best() const { return out_ / kBestFile; }
  Candidate candidate(const Path& path, std::optional<int64_t> wanted_step = {}) const;
  std::optional<Candidate> choose(const std::vector<Candidate>& expected, const std::vector<Path>& others,
                                  const RunState& state) const;
  void warn_of(const std::vector<Candidate>& expected, const std::optional<Candidate>& chosen,
               const RunState& state) const;
  BestEvaluation put_in_place(const std::optional<Candidate>& chosen, const RunState& state);
  std::optional<Stamp> stamp() const;

  FileSystem& files_;
  Path out_;
  const Config& config_;
  Warn warn_;
  std::optional<Stamp> seen_;  // of best.bin when it was last found as it should be
};

}  // namespace ct
