// When and how a run keeps what it has learnt: checkpoints to go on from, last.bin and best.bin to be used. What a
// failure costs is decided here too: training goes on without a checkpoint where it may.
#pragma once

#include "train/model_selection.h"
#include "train/run/best_weights.h"
#include "train/run/checkpoint.h"
#include "train/run_context.h"

namespace ct {

/// All calls are collective, but for those that only look.
class RunSaver {
 public:
  /// `folder` is rank 0's, null elsewhere; it exists. Both must outlive this.
  RunSaver(const RunContext& run, RunFolder* folder, const Provenance& provenance);

  enum class MustSucceed : bool { no, yes };
  /// Is a checkpoint due by train.save_interval?
  bool due() const;
  /// Begins a checkpoint of the state, unless there is one; asynchronous ones end in poll() or complete().
  void save(MustSucceed must);
  /// Looks after a checkpoint that is being saved, without waiting.
  void poll();
  /// Waits for a checkpoint that is being saved.
  void complete(MustSucceed must);

  /// The checkpoint that training starts from: `step` -1 where it is another run's.
  void restored(int64_t step, const std::string& path) {
    saved_step_ = step;
    saved_path_ = path;
  }
  bool has_checkpoint() const { return saved_step_ >= 0; }
  /// Where the weights of the state's step can be read, on rank 0.
  Path weights_path() const { return Path(saved_path_) / kWeightsFile; }

  /// What is called best becomes what lies in best.bin, as it was at that checkpoint.
  void return_to_best_of(const Path& checkpoint);
  /// Writes the evaluated weights as last.bin and, if they are the best, as best.bin. `last_step`: it must succeed.
  void keep_evaluated(ModelSelection& selection, const Judged& judged, bool last_step);
  /// The best.bin of a run that had ended is made again where it was lost: of the weights at hand if they are the
  /// best, otherwise of what was kept beside the checkpoint.
  void mend_best(const ModelSelection& selection, const Judged& judged);

  size_t snapshot_bytes() const { return writer_.snapshot_bytes(); }

 private:
  Metadata metadata() const;
  Metadata best_metadata(const ModelSelection& selection, const Judged& judged) const;
  void settle_best(const std::function<BestEvaluation(BestWeights&)>& look);
  void require_folder();
  void saved(const CheckpointWriter::Saved& what);
  void not_saved(const Error& error, MustSucceed must);

  RunContext run_;
  RunFolder* folder_;
  const Provenance& provenance_;
  CheckpointWriter writer_;
  std::optional<BestWeights> best_weights_;  // rank 0 only
  int64_t saved_step_ = -1, saving_step_ = -1;
  std::string saved_path_;  // of the latest checkpoint
};

}  // namespace ct
