// What a rank trains with: device, data, programs, engine, in the one order in which ranks can open and agree on them.
// train restores, saves and reports around it; bench only steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "train/setup.h"

namespace ct {

/// Every call is collective, but for those that only look.
class TrainingSession {
 public:
  struct Options {
    std::string memory_advice = kTrainWithLess;  // advice to those who are out of memory
    bool evaluates = true;                       // an evaluator shares parameters and arena with the engine
    IfAbsent if_absent = IfAbsent::write_later;  // a set that the program makes itself; later: by make_data()
    std::span<const DataKind> data_kinds = ct::data_kinds();
    std::function<void(const std::string&)> warn;         // may be empty
    std::function<void(const Exchange&)> exchanged = {};  // hears of collectives (engine/bind.h); may be empty
  };
  /// Opens the device and the data. Throws where ranks differ in machine or configuration. `config` and `comm` must
  /// outlive this.
  TrainingSession(const Config& config, Communicator& comm, Options options);

  /// Lowers and binds the programs; parameters have no values yet. `plans` are the ways of the device's libraries that
  /// a checkpoint recorded (only rank 0's count; empty: rank 0 chooses); all ranks go the same, for the same bits.
  /// Error(memory) where the device has no room.
  void prepare(const std::string& plans = "");
  /// Writes a set that the program makes itself, if there is one to be written: before the first step, when nothing
  /// else can be refused any more.
  void make_data() { make_late_datasets(data_, config_, comm_); }
  /// Parameters drawn from the seed, and where the model asks for it from the training images: after make_data().
  void initialize() {
    ct::initialize(engine(), graph(), static_cast<uint64_t>(config_.seed),
                   values_by_images(graph(), config_, comm_, data_));
  }
  /// From the seed alone: a file has all but the last layer.
  void initialize_head() { ct::initialize(engine(), graph(), static_cast<uint64_t>(config_.seed)); }

  /// Step `batch` of an epoch: micro-batches forward and backward, then the update.
  void step(int64_t epoch, int64_t batch);
  /// Runs `count` steps of a run's beginning, `first` being the first of them; what they report is dropped.
  void run_steps(int64_t first, int64_t count);
  /// Seconds that steps so far waited for their micro-batches.
  double waited() const { return waited_; }

  /// Nothing that was learnt or measured of a file since cut or written over may be saved or believed: throws.
  void check_data() const;
  /// The orderly end, when nothing will be computed any more. Without it (after an error) nobody is waited for.
  void finish();

  Communicator& comm() { return comm_; }
  Communicator& collectives() { return device_.collectives(); }
  Backend& backend() { return device_.backend(); }
  RankDevice& device() { return device_; }
  const BatchSizes& batch() const { return batch_; }
  const Datasets& data() const { return data_; }
  const Graph& graph() const { return programs_.graph; }
  const LoweredProgram& program() const { return programs_.train; }
  const Distribution& distribution() const { return programs_.train.distribution; }
  Engine& engine() { return *engine_; }
  Evaluator& evaluator() { return *evaluator_; }
  const Pipeline& pipeline() const { return *pipeline_; }
  int classes() const { return data_.train->classes(); }
  int64_t steps_per_epoch() const { return static_cast<int64_t>(data_.parts.training.size()) / batch_.train; }
  int64_t total_steps() const { return ct::run_steps(config_, steps_per_epoch()); }
  /// Plans that were stored or chosen and are not to be had, of the first rank that misses one; empty: none.
  const std::string& plans_missed() const { return plans_missed_; }

 private:
  void agree_on_plans(const std::string& plans);
  void require_memory();
  std::string gather_plans_missed();

  const Config& config_;
  Communicator& comm_;
  Options options_;
  BatchSizes batch_;
  RankDevice device_;
  Datasets data_;
  Programs programs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Pipeline> pipeline_;
  std::string plans_missed_;
  double waited_ = 0;
};

}  // namespace ct
