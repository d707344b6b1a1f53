// A training run on one rank: the loop, what it reports, when it saves, evaluates and stops. Ranks run it in step; what
// one of them decides (stop, skip, early end) all of them decide.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "base/files.h"
#include "metrics/console.h"
#include "metrics/metrics_log.h"
#include "train/best_weights.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"
#include "train/run_folder.h"
#include "train/run_state.h"
#include "train/setup.h"

namespace ct {

struct TrainOptions {
  Config config;
  std::string config_source;  // the file that was taken, for people
  std::vector<std::string> warnings;
  ResumeMode resume;
  bool reset = false;
  std::string init;  // weights to start from; empty: drawn from the seed
};

class Trainer {
 public:
  Trainer(const TrainOptions& options, Communicator& comm, Console& console);
  /// done or stopped; anything else is thrown. Once.
  ExitCode run();

 private:
  using Clock = std::chrono::steady_clock;

  ExitCode run_to_end();
  void describe_run();
  void announce(const std::string& checkpoint);
  void train_step();
  void report_step(int64_t micros_before);
  void record_step();
  void show_progress();
  void check_replicas();
  void check_data() const;
  bool stop_agreed();
  ExitCode stop();
  bool save_due() const;
  bool evaluation_due() const;
  enum class MustSucceed : bool { no, yes };
  void look_after_folder();
  void save(MustSucceed must);
  void complete_save(MustSucceed must);
  void saved(const CheckpointWriter::Saved& what);
  void not_saved(const Error& error, MustSucceed must);
  enum class Because : bool { due, ended };
  bool evaluate_now(Because because);
  void keep_best(const Evaluation& judged);
  void mend_best(bool newest, const Metadata& metadata);
  void settle_best(const std::function<BestEvaluation(BestWeights&)>& look);
  bool finish();
  void drain_losses();
  void record(const Json& record);
  void agree_on_plans();
  std::string gather_plans_missed();
  void look_for_skips();
  [[noreturn]] void give_up(const std::string& why);
  Metadata weights_metadata() const;
  double training_seconds() const;

  const TrainOptions& options_;
  Config config_;  // with the data set that was found in place of `auto`
  Communicator& comm_;
  Console& console_;
  BatchSizes batch_;
  Datasets data_;
  RankDevice device_;
  Programs programs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<EvalPipeline> test_, validation_;
  std::unique_ptr<RunFolder> folder_;          // rank 0 only
  std::unique_ptr<BestWeights> best_weights_;  // rank 0 only
  std::unique_ptr<MetricsLog> metrics_;        // rank 0 only
  std::unique_ptr<CheckpointWriter> writer_;

  Provenance provenance_;
  std::string plans_missed_;
  RunState state_;
  int64_t total_steps_ = 0;
  int64_t saved_step_ = -1, saving_step_ = -1, evaluated_step_ = -1;
  std::string saved_path_;           // of the latest checkpoint
  std::vector<double> step_losses_;  // of the latest step's micro-batches
  std::optional<Evaluation> test_result_;
  bool early_stop_ = false;
  bool ended_ = false;  // the run had ended already: its evaluation is repeated, and nothing is written

  // Time: of training alone, without evaluations and saves.
  Clock::time_point begun_, window_begun_, shown_;
  double aside_ = 0, window_aside_ = 0, waited_ = 0;
  int64_t first_step_ = 0, window_step_ = 0, next_vote_ = 0;
  Traffic moved_aside_, moved_before_, norms_before_;  // by evaluations; before the first step
};

}  // namespace ct
