// The network of a weights file, on a device, for verbs that ask it: eval and predict.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/weight_set.h"
#include "comm/communicator.h"
#include "metrics/console.h"
#include "train/config/config.h"
#include "train/evaluation.h"
#include "train/weights.h"

namespace CLI {
class Option;
}

namespace ct {

/// The options of how it computes. Must outlive the parsing.
struct NetworkOptions {
  std::string dtype, views;  // empty: the run's
  WeightSetOptions which;
  Config config;  // device, cuda.path
  CLI::Option* cuda_path_given = nullptr;

  void add_to(CLI::App& app);
};

class TrainedNetwork {
 public:
  /// Opens `checkpoint` and prints what is converted and which set is taken. Error(diverged) if its weights are not
  /// finite.
  TrainedNetwork(const std::string& checkpoint, const NetworkOptions& options, Console& console);

  const WeightsInfo& info() const { return info_; }
  WeightSet set() const { return set_; }

  /// Prepares the device for batches of `batch` samples, which all cores of a CPU share.
  void prepare(int64_t batch, const SampleShape& sample);
  /// Evaluates these images of a set, with the run's views or those of --views. Calls `answered` for each in order.
  Evaluation evaluate(const DataSet& set, std::vector<uint32_t> images, const std::string& split,
                      const Answered& answered);
  /// Throws Error(diverged) if the loss is not finite.
  void require_finite_loss(const Evaluation& result) const;

 private:
  void warn(const std::string& text) const;
  void add_evaluator();
  void add_evaluators(int64_t batches);

  const std::string checkpoint_;
  SafetensorsFile file_;
  WeightsInfo info_;
  WeightSet set_;
  std::string dtype_;
  EvalViews views_;
  Config config_;
  Console& console_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Backend> backend_;
  Memory params_;
  std::optional<LoweredProgram> program_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;  // of the same weights
};

}  // namespace ct
