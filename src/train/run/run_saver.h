// Saves a run: checkpoints for resuming, and last.bin and best.bin. It also decides whether training continues after a
// failed save.
#pragma once

#include "train/model_selection.h"
#include "train/run/best_weights.h"
#include "train/run/checkpoint.h"
#include "train/run_context.h"

namespace ct {

/// All calls are collective, except those that only return values.
class RunSaver {
 public:
  /// `folder` is rank 0's existing folder, null on other ranks. Both must outlive this.
  RunSaver(const RunContext& run, RunFolder* folder, const Provenance& provenance);

  enum class MustSucceed : bool { no, yes };
  /// Is a checkpoint due by train.save_interval?
  bool due() const;
  /// Begins a checkpoint of the state, unless there is one; asynchronous ones end in poll() or complete().
  void save(MustSucceed must);
  /// Continues a checkpoint that is being saved, without waiting.
  void poll();
  /// Waits for a checkpoint that is being saved.
  void complete(MustSucceed must);

  /// Sets the checkpoint that training starts from; `step` is -1 if it is another run's.
  void restored(int64_t step, const std::string& path) {
    saved_step_ = step;
    saved_path_ = path;
  }
  bool has_checkpoint() const { return saved_step_ >= 0; }
  /// The file with the weights of the state's step, on rank 0.
  Path weights_path() const { return Path(saved_path_) / kWeightsFile; }

  /// Restores best.bin and the record of the best evaluation as they were at that checkpoint.
  void return_to_best_of(const Path& checkpoint);
  /// Writes the evaluated weights as last.bin and, if they are the best, as best.bin. `last_step`: it must succeed.
  void keep_evaluated(ModelSelection& selection, const Judged& judged, bool last_step);
  /// Restores a lost best.bin of a run that had already ended: from the current weights if they are the best, otherwise
  /// from the checkpoint's copy.
  void mend_best(const ModelSelection& selection, const Judged& judged);

  size_t snapshot_bytes() const { return writer_.snapshot_bytes(); }

 private:
  Metadata metadata() const;
  Metadata best_metadata(const ModelSelection& selection, const Judged& judged) const;
  void settle_best(const std::function<BestEvaluation(BestWeights&)>& look);
  void require_folder();
  void show_progress();
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
