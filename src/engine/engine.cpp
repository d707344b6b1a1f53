#include "engine/engine.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ct {
namespace {

Inputs inputs_of(const BoundProgram& bound) {
  const Ports& ports = bound.lowered().ports;
  return {bound.tensor(ports.images).as<uint8_t>(), bound.tensor(ports.draws).as<int32_t>(),
          bound.tensor(ports.labels).as<int32_t>()};
}

template <class T>
std::span<T> whole(const BoundProgram& bound, ValueId id) {
  const Tensor t = bound.tensor(id);
  return {t.as<T>(), static_cast<size_t>(t.shape.numel())};
}

}  // namespace

std::vector<Range> StateBuffer::ranges() const {
  std::vector<Range> ranges;
  for (const Run& run : held) ranges.push_back(run.range);
  return ranges;
}

Engine::Engine(Backend& backend, Communicator& comm, Lowered program, Schedule schedule, const BindOptions& options)
    : comm_(comm), bound_(backend, comm, std::move(program), options), schedule_(std::move(schedule)) {
  const Lowered& lowered = bound_.lowered();
  inputs_ = inputs_of(bound_);
  scalars_ = new (bound_.tensor(lowered.scalars).data) StepScalars();
  losses_ = bound_.tensor(lowered.ports.losses).as<float>();
  batch_ = lowered[lowered.ports.losses].shape[0];
  upload_schedule();
}

void Engine::micro_step() {
  const bool last = ++micro_steps_ == bound_.lowered().distribution.accumulation;
  if (last)
    bound_.run_last();
  else
    bound_.run_micro();
  local_losses_.push_back(std::accumulate(losses_, losses_ + batch_, 0.0));
}

void Engine::update() {
  check(micro_steps_ == bound_.lowered().distribution.accumulation, "an update in the middle of a step");
  micro_steps_ = 0;
  if (window_steps_ == kScheduleWindow) upload_schedule();
  bound_.run_update();
  ++window_steps_;
}

void Engine::restore(const StepScalars& scalars) {
  *scalars_ = scalars;
  upload_schedule();
}

/// A step may be skipped and then uses the same row again, so a window of n rows serves at least n updates.
void Engine::upload_schedule() {
  auto* rows = bound_.tensor(bound_.lowered().schedule).as<ScheduleRow>();
  scalars_->window_begin = scalars_->applied;
  for (int64_t i = 0; i < kScheduleWindow; ++i) rows[i] = schedule_(scalars_->applied + i);
  window_steps_ = 0;
}

std::vector<double> Engine::drain_losses() {
  const Distribution& d = bound_.lowered().distribution;
  std::vector<double> all(local_losses_.size() * static_cast<size_t>(d.ranks));
  comm_.gather_all(std::as_bytes(std::span(local_losses_)), std::as_writable_bytes(std::span(all)));
  std::vector<double> ordered(all.size());
  const size_t a = static_cast<size_t>(d.accumulation), s = static_cast<size_t>(d.micro_batches());
  for (size_t step = 0; step < local_losses_.size() / a; ++step)
    for (int r = 0; r < d.ranks; ++r)
      for (int j = 0; j < d.accumulation; ++j)
        ordered[step * s + static_cast<size_t>(d.micro_batch(r, j))] =
            all[static_cast<size_t>(r) * local_losses_.size() + step * a + static_cast<size_t>(j)];
  local_losses_.clear();
  return ordered;
}

std::vector<StateBuffer> Engine::state() {
  settle();
  std::vector<StateBuffer> buffers;
  for (const HeldState& s : lowered().states) buffers.push_back({s.name, bound_.tensor(s.value).data, s.held});
  return buffers;
}

bool Evaluator::collective() const {
  const Program& steps = bound_.lowered().micro;
  return std::any_of(steps.begin(), steps.end(), [](const Step& s) { return std::holds_alternative<CommOp>(s.op); });
}

Inputs Evaluator::inputs() const { return inputs_of(bound_); }
std::span<const float> Evaluator::losses() const { return whole<float>(bound_, bound_.lowered().ports.losses); }
std::span<const int32_t> Evaluator::predicted() const {
  return whole<int32_t>(bound_, bound_.lowered().ports.predicted);
}
std::span<const int32_t> Evaluator::larger() const { return whole<int32_t>(bound_, bound_.lowered().ports.larger); }

}  // namespace ct
