#include "cli/bench/measured_update.h"

#include "plan/flat.h"

namespace ct {

MeasuredUpdate::MeasuredUpdate(const Config& config, int64_t n) : optimizer_(config.optimizer.value()), n_(n) {
  slice_.masters = add({n}, DType::f32);
  slice_.grads = add({n}, DType::f32);
  slice_.copy = add({n}, DType::bf16);
  slice_.tensor = 0;
  scalars_ = add({static_cast<int64_t>(sizeof(StepScalars))}, DType::u8);
  const auto count = static_cast<int64_t>(chunks().size());
  weight_sums_ = add({count}, DType::f64);
  update_sums_ = add({count}, DType::f64);
  ratios_ = add({1}, DType::f32);
  std::visit(
      [&](const auto& optimizer) {
        name_ = optimizer.kType;
        slice_.weight_decay = optimizer.weight_decay;
        std::vector<std::string> states = optim::states_of(optimizer.rule());
        if (std::holds_alternative<optim::Muon>(optimizer_)) states = {"momentum_buffer"};  // of a matrix
        for (const std::string& state : states) {
          slice_.states.push_back(state.empty() ? kNone : add({n}, DType::f32));
          states_ += !state.empty();
        }
        constexpr int64_t kSteps = 1000;  // applied before
        const ScheduleRow row = optim::row_of(optimizer, optimizer.rates(), kSteps);
        step_ = {.grad_scale = 1, .lr = row.lr, .coefficients = row.coefficients};
      },
      optimizer_);
}

ValueId MeasuredUpdate::add(const Shape& shape, DType type) {
  values_.push_back({.shape = shape, .dtype = type});
  return static_cast<ValueId>(values_.size() - 1);
}

std::vector<SquareSums::Chunk> MeasuredUpdate::chunks() const {
  std::vector<SquareSums::Chunk> all;
  for (int64_t at = 0; at < n_; at += kChunk)
    all.push_back({{at, std::min(at + kChunk, n_)}, static_cast<int64_t>(all.size())});
  return all;
}

int64_t MeasuredUpdate::bytes(bool with_copy) const {
  const auto f32 = static_cast<int64_t>(sizeof(float)), bf16 = static_cast<int64_t>(size_of(DType::bf16));
  return f32 * (1 + 2 * (1 + states_)) + (with_copy ? bf16 : 0);
}

std::vector<ComputeOp> MeasuredUpdate::ops(bool with_copy) const {
  Update update{.slices = {slice_}, .scalars = scalars_};
  if (!with_copy) update.slices[0].copy = kNone;
  return std::visit([&](const auto& optimizer) { return ops_of(optimizer, update); }, optimizer_);
}

/// The gradient's sums are there: they are the norm's.
std::vector<ComputeOp> MeasuredUpdate::ops_of(const optim::Lars& lars, const Update& update) const {
  const std::vector<SquareSums::Chunk> all = chunks();
  return {SquareSums{slice_.masters, weight_sums_, all},
          lars.trust({{.chunks = {0, static_cast<int64_t>(all.size())}, .weight_decay = slice_.weight_decay}}, scalars_,
                     weight_sums_, update_sums_, ratios_),
          optim::update_by(lars.rule(), trusted(update))};
}

std::vector<ComputeOp> MeasuredUpdate::ops_of(const optim::Lamb& lamb, const Update& update) const {
  const std::vector<SquareSums::Chunk> all = chunks();
  const auto count = static_cast<int64_t>(all.size());
  LambMoments moments{.slices = {{slice_.masters, slice_.grads, slice_.state(rules::state<rules::Lamb>("exp_avg")),
                                  slice_.state(rules::state<rules::Lamb>("exp_avg_sq")), slice_.weight_decay, all}},
                      .scalars = scalars_,
                      .weight_sums = weight_sums_,
                      .update_sums = update_sums_,
                      .eps = lamb.eps};
  return {std::move(moments), lamb.trust({{.chunks = {0, count}}}, scalars_, weight_sums_, update_sums_, ratios_),
          optim::update_by(lamb.rule(), trusted(update))};
}

std::vector<ComputeOp> MeasuredUpdate::ops_of(const optim::Muon& muon, const Update& update) const {
  return {muon.directions({{slice_.grads, slice_.state(0)}}, scalars_), optim::update_by(muon.rule(), update)};
}

}  // namespace ct
