// The objects of a rank's training: device, data, programs and engine, opened in the order in which ranks must agree on
// them. `train` adds restoring, saving and reports; `bench` only runs steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "train/freezing.h"
#include "train/memory/estimate.h"
#include "train/setup.h"

namespace ct {

/// All calls are collective, except those that only return values.
class TrainingSession {
 public:
  struct Options {
    std::string memory_advice = kTrainWithLess;  // advice in out-of-memory errors
    bool evaluates = true;                       // has an evaluator, which shares parameters and arena with the engine
    bool keeps_run = false;                      // in config.output
    IfAbsent if_absent = IfAbsent::write_later;  // for a set that the program generates; later: by make_data()
    std::span<const DataKind> data_kinds = ct::data_kinds();
    std::function<void(const std::string&)> warn;           // may be empty
    std::function<void(const std::string&)> progress = {};  // names what runs from now on; may be empty
    std::function<void(const Exchange&)> exchanged = {};    // called for collectives (engine/bind.h); may be empty
  };
  /// Opens the device and the data. Throws if ranks differ in machine or configuration. `config` and `comm` must
  /// outlive this.
  TrainingSession(const Config& config, Communicator& comm, Options options);

  /// Lowers and binds the programs; parameters are not initialised. `plans` are the library plans that a checkpoint
  /// recorded (only rank 0's are used; empty: rank 0 chooses); all ranks use the same, for the same bits. Error(memory)
  /// if the device has too little memory.
  void prepare(const std::string& plans = "", const LearningPhase& phase = {});
  /// Writes a set that the program generates, if necessary. Must be called before the first step, after all checks that
  /// may refuse the run.
  void make_data() {
    if (data_.source.to_write) progress("writing the synthetic images");
    make_late_datasets(data_, config_, comm_);
  }
  /// Initialises parameters from the seed and, if the model requires it, from training images. Must be called after
  /// make_data().
  void initialize() {
    progress("computing initial weights");
    ct::initialize(engine(), graph(), static_cast<uint64_t>(config_.seed),
                   values_by_images(graph(), config_, comm_, data_));
  }
  /// Initialises from the seed alone, if a file provides all but the last layer.
  void initialize_head() { ct::initialize(engine(), graph(), static_cast<uint64_t>(config_.seed)); }

  /// Step `batch` of an epoch: micro-batches forward and backward, then the update. `compare_replicas`: all ranks'
  /// copies of the weights with which it computed must be equal (require_same_replicas).
  void step(int64_t epoch, int64_t batch, bool compare_replicas = false);
  /// Runs `count` steps from step `first` on and discards their losses.
  void run_steps(int64_t first, int64_t count);
  /// Seconds that steps so far waited for their micro-batches.
  double waited() const { return waited_; }

  /// Throws if a data file was truncated or overwritten, so that results from it are not saved or reported.
  void check_data() const;
  /// The normal end, after all computation. Without it (after an error) the destructor does not wait for other ranks.
  void finish();

  const Config& config() const { return config_; }
  Communicator& comm() { return comm_; }
  Communicator& collectives() { return device_.collectives(); }
  Backend& backend() { return device_.backend(); }
  RankDevice& device() { return device_; }
  const BatchSizes& batch() const { return batch_; }
  const Datasets& data() const { return data_; }
  /// What the programs know of the data.
  const DataSpec& spec() const { return spec_; }
  const Graph& graph() const { return programs_.graph; }
  const LoweredProgram& program() const { return programs_.train; }
  const Distribution& distribution() const { return programs_.train.distribution; }
  Engine& engine() { return *engine_; }
  Evaluator& evaluator() { return *evaluator_; }
  const Pipeline& pipeline() const { return *pipeline_; }
  int classes() const { return data_.train->classes(); }
  int64_t steps_per_epoch() const { return static_cast<int64_t>(data_.parts.training.size()) / batch_.train; }
  int64_t total_steps() const { return ct::run_steps(config_, steps_per_epoch()); }
  RunLength length() const { return {total_steps(), steps_per_epoch()}; }
  /// Stored or chosen plans that are not available, of the first rank that lacks one; empty: none.
  const std::string& plans_missed() const { return plans_missed_; }

 private:
  void progress(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }
  void agree_on_plans(const std::string& plans);
  EstimateOf estimated() const;
  void settle_memory(const std::function<void()>& lower);
  void upload_images();
  void write_inputs(int64_t epoch, int64_t batch, int64_t micro_step);
  void allocate(int64_t least_arena, int64_t optimizer_begun);
  std::string gather_plans_missed();

  const Config& config_;
  Communicator& comm_;
  Options options_;
  BatchSizes batch_;
  RankDevice device_;
  Datasets data_;
  DataSpec spec_;
  Programs programs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Pipeline> pipeline_;
  std::string plans_missed_;
  bool images_uploaded_ = false;
  int64_t next_input_ = 0;  // of all micro-steps of the run, that of the engine's next input
  double waited_ = 0;
};

}  // namespace ct
