// An optimizer's update of n parameters for bench update: its operations and their values.
#pragma once

#include <string>
#include <vector>

#include "plan/step_scalars.h"
#include "train/config/config.h"

namespace ct {

class MeasuredUpdate {
 public:
  /// The configuration's optimizer over one tensor.
  MeasuredUpdate(const Config& config, int64_t n);

  const std::string& name() const { return name_; }
  const std::vector<Value>& values() const { return values_; }
  ValueId grads() const { return slice_.grads; }
  ValueId scalars() const { return scalars_; }
  const StepScalars& step() const { return step_; }

  /// Its operations, with or without the copy in compute type; for Muon the elementwise part.
  std::vector<ComputeOp> ops(bool with_copy) const;
  /// Bytes a parameter: each input read once, each changed value written once.
  int64_t bytes(bool with_copy) const;

 private:
  ValueId add(const Shape& shape, DType type);
  std::vector<ComputeOp> ops_of(const optim::Lars& lars, const Update& update) const;
  std::vector<ComputeOp> ops_of(const optim::Lamb& lamb, const Update& update) const;
  std::vector<ComputeOp> ops_of(const optim::Muon& muon, const Update& update) const;
  /// All others are one operation.
  template <class Optimizer>
  std::vector<ComputeOp> ops_of(const Optimizer& optimizer, const Update& update) const {
    return {optim::update_by(optimizer.rule(), update)};
  }
  std::vector<SquareSums::Chunk> chunks() const;
  Update trusted(Update update) const {
    update.ratios = ratios_;
    return update;
  }

  optim::Optimizer optimizer_;
  int64_t n_, states_ = 0;
  std::string name_;
  std::vector<Value> values_;
  UpdateSlice slice_;
  ValueId scalars_ = kNone, weight_sums_ = kNone, update_sums_ = kNone, ratios_ = kNone;
  StepScalars step_;
};

}  // namespace ct
