// A training run on one rank: the loop, with saving, evaluating and stopping. All ranks run it in step and make the
// same decisions (stop, skip, early end).
#pragma once

#include <optional>

#include "train/agree.h"
#include "train/evaluation.h"
#include "train/initial_weights.h"
#include "train/model_selection.h"
#include "train/reports/diagnostics.h"
#include "train/run/run_folder.h"
#include "train/run/run_saver.h"
#include "train/run_summary.h"
#include "train/session.h"
#include "train/step_reports.h"

namespace ct {

struct TrainOptions {
  Config config;
  std::string config_source;  // the configuration's file, for messages
  std::vector<std::string> warnings;
  ResumeMode resume;
  bool reset = false;
  std::optional<TrainingClock> clock;  // of the Trainer before in this process, from which this one goes on
  std::string init;                    // weights to start from; empty: drawn from the seed
  InitOptions init_options;
  std::span<const DataKind> data_kinds = ct::data_kinds();
  std::vector<MakeListener> listeners = {};  // in addition to those of train/
};

class Trainer {
 public:
  Trainer(const TrainOptions& options, Communicator& comm, Console& console);
  /// Trains once and returns done or stopped; all failures are thrown.
  ExitCode run();
  /// After run(): did it stop because another Trainer must go on from its checkpoint, whose program trains all
  /// parameters (train.unfreeze_at)?
  bool goes_on() const { return unfreezes_; }
  /// Its clock, stopped.
  const TrainingClock& clock() const { return clock_; }

 private:
  std::string open_folder();
  void describe_run();
  void start_from(const std::string& checkpoint, const LearningPhase& phase);
  void show_first_images();
  void add_listeners(bool goes_on);

  ExitCode run_to_end();
  TimeLeft::Plan time_plan() const;
  void train_step();
  bool stop_agreed();
  ExitCode stop();
  ExitCode end_program();
  void save(RunSaver::MustSucceed must);
  bool evaluation_due() const;
  /// Beyond the end is a run that goes on with fewer steps or epochs than it has done.
  bool at_end() const { return state_.step >= total_steps_; }
  enum class Because : bool { due, ended };
  bool evaluate_now(Because because);
  /// Do the images of the test set judge the chosen weights alone, at the end?
  bool judges_at_end() const { return config_.train.best.split == BestSplit::val; }
  using NamedPipeline = std::pair<const EvalPipeline*, const char*>;  // images and the name of their split
  std::vector<NamedPipeline> evaluated_splits() const;
  std::vector<Evaluation> evaluate_each(const std::vector<NamedPipeline>& splits);
  std::vector<Evaluation> evaluate_splits(const std::vector<NamedPipeline>& splits);
  bool judge_best();
  void keep_evaluation();
  int64_t step_of_best();
  void load_best();
  void report(const Evaluation& e, int64_t step, bool in_epoch_line);
  void count_replaced();
  void report_replaced();
  bool finish();
  void look_for_skips();
  /// Ends the run as diverged, and names the newest finite checkpoint of a step before that one.
  [[noreturn]] void give_up(const std::string& why, int64_t before = Store::kAfterAll);

  const TrainOptions& options_;
  Config config_;  // with the located data set instead of `auto`
  Communicator& comm_;
  std::unique_ptr<RunFolder> folder_;  // rank 0 only; the following members write its files
  RunLog log_;
  TrainingClock clock_;
  RunState state_;
  CommsLog comms_;  // before the session, which calls it
  TrainingSession session_;
  std::vector<std::unique_ptr<RunListener>> listeners_;
  bool lines_of_epochs_ = true;  // and no listener's instead
  const RunContext run_{config_, session_, state_, clock_, log_, listeners_};
  Provenance provenance_;
  std::optional<EvalPipeline> test_, validation_;
  int64_t total_steps_ = 0;
  std::optional<StepReports> reports_;
  std::optional<RunSummary> summary_;
  std::optional<RunSaver> saver_;
  std::optional<Diagnostics> diagnostics_;
  std::optional<ModelSelection> selection_;
  std::optional<StopVote> stop_vote_;

  std::optional<Evaluation>
      final_result_;  // the latest one of the test images, or without them of the validation images
  int64_t evaluated_step_ = -1;
  int64_t final_step_ = -1;  // of the weights that it is of
  int64_t replaced_before_ = 0,
          replaced_told_ = 0;             // RunState::replaced at the start of this process and at the latest report
  std::vector<std::string> unread_told_;  // classes of which no picture could be read
  bool early_stop_ = false;
  bool unfreezes_ = false;
  bool ended_ = false;                // the run had already ended: its evaluation is repeated, and nothing is written
  Traffic uncounted_, norms_before_;  // traffic before the first step, and of evaluations
};

}  // namespace ct
