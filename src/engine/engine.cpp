#include "engine/engine.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace ct {
/// A result computed with peers is valid only if every peer finished its part: throws if one did not.
static void throw_if_aborted(Communicator& comm) {
  if (comm.aborted()) comm.barrier();
}

std::vector<Range> StateBuffer::ranges() const {
  std::vector<Range> ranges;
  for (const Run& run : held) ranges.push_back(run.range);
  return ranges;
}

Engine::Engine(Backend& backend, Communicator& comm, LoweredProgram program, Schedule schedule,
               const BindOptions& options)
    : backend_(backend),
      comm_(comm),
      bound_(backend, comm, std::move(program), options),
      schedule_(std::move(schedule)),
      feed_(backend, bound_),
      losses_(backend, bound_.tensor(lowered().ports.losses),
              [this, batch = lowered()[lowered().ports.losses].shape[0]](const std::byte* value) {
                const auto* losses = reinterpret_cast<const float*>(value);
                local_losses_.push_back(std::accumulate(losses, losses + batch, 0.0));
              }),
      scalars_(backend, bound_.tensor(lowered().scalars), [this](const std::byte* value) {
        std::memcpy(&latest_.scalars, value, sizeof latest_.scalars);
        recent_.push_back(latest_);
      }) {
  if (lowered().loss_scale != kNone)
    loss_scales_.emplace(backend, bound_.tensor(lowered().loss_scale), [this](const std::byte* value) {
      std::memcpy(&latest_.loss_scale, value, sizeof latest_.loss_scale);
      recent_[with_scale_++].loss_scale = latest_.loss_scale;
    });
  const Ids& balances = lowered().ports.balances;
  local_balances_.resize(balances.size());
  for (size_t i = 0; i < balances.size(); ++i)
    balances_.emplace_back(backend, bound_.tensor(balances[i]), [this, i](const std::byte* value) {
      local_balances_[i].push_back(static_cast<double>(*reinterpret_cast<const float*>(value)));
    });
  std::vector<RingCopy> of_micro = feed_.fetch_next(), of_step;
  const auto add = [](std::vector<RingCopy>& to, const OutputLog& log) {
    const std::vector<RingCopy> copies = log.append();
    to.insert(to.end(), copies.begin(), copies.end());
  };
  add(of_micro, losses_);
  for (const OutputLog& balance : balances_) add(of_micro, balance);
  of_step = of_micro;
  add(of_step, scalars_);
  if (loss_scales_) add(of_step, *loss_scales_);
  bound_.add({.before_micro = feed_.fetch(), .after_micro = of_micro, .after_update = of_step});
  restore({.loss_scale = lowered().first_loss_scale});
}

void Engine::micro_step() {
  run_pending();
  const bool last = ++micro_steps_ == bound_.lowered().distribution.accumulation;
  feed_.send();
  if (last)
    bound_.run_last();
  else
    bound_.run_micro();
  feed_.sent();
  if (!last || backend_.is_host()) keep_losses();
}

/// Of a micro-batch. On a device beside the host, those of a step's last leave with the results of the update: one
/// launch less.
void Engine::keep_losses() {
  losses_.keep();
  for (OutputLog& balance : balances_) balance.keep();
}

void Engine::update() {
  check(micro_steps_ == bound_.lowered().distribution.accumulation, "an update in the middle of a step");
  begin_update();
  bound_.run_update();
  keep_results();
}

/// Counts it. The window of the schedule has a row for it.
void Engine::begin_update() {
  micro_steps_ = 0;
  if (window_steps_ == kScheduleWindow) restore(latest());
  ++window_steps_;
}

/// Of an update.
void Engine::keep_results() {
  if (!backend_.is_host()) keep_losses();
  scalars_.keep();
  if (loss_scales_) loss_scales_->keep();
}

void Engine::reserve_results(int64_t updates) {
  losses_.reserve(updates);
  for (OutputLog& balance : balances_) balance.reserve(updates);
  scalars_.reserve(updates);
  if (loss_scales_) loss_scales_->reserve(updates);
}

void Engine::finish_step() {
  if (backend_.is_host()) {
    micro_step();
    return update();
  }
  check(micro_steps_ + 1 == bound_.lowered().distribution.accumulation, "the end of a step in its middle");
  begin_update();
  feed_.send();
  ++pending_;
  if (feed_.left() <= pending_ || pending_ == steps_at_once()) run_pending();
}

/// Steps that finish_step() may leave to run together.
int64_t Engine::steps_at_once() const {
  return bound_.lowered().distribution.accumulation == 1 ? bound_.steps_at_once() : 1;
}

void Engine::run_pending() {
  while (pending_ > 0) {
    const int64_t steps = pending_ == steps_at_once() ? pending_ : 1;
    reserve_results(steps);
    pending_ -= steps;  // first, so that a failure is not met again by whoever reads what is there
    bound_.run_step(steps);
    feed_.sent(steps);
    for (int64_t i = 0; i < steps; ++i) keep_results();
  }
}

const Outcome& Engine::latest() {
  run_pending();
  scalars_.settle();
  if (loss_scales_) loss_scales_->settle();
  throw_if_aborted(comm_);
  return latest_;
}

std::vector<Outcome> Engine::drain_outcomes() {
  latest();
  with_scale_ = 0;
  return std::exchange(recent_, {});
}

/// Goes on with a new window of the schedule: a step may be skipped and then uses the same row again, so a window of n
/// rows serves at least n updates.
void Engine::restore(const Outcome& outcome) {
  run_pending();
  latest_ = outcome;
  latest_.scalars.window_begin = latest_.scalars.applied;
  const ValueId schedule = lowered().schedule;
  auto* rows = reinterpret_cast<ScheduleRow*>(mirror(schedule));
  for (int64_t i = 0; i < kScheduleWindow; ++i) rows[i] = schedule_(latest_.scalars.applied + i);
  upload(schedule);
  write(lowered().scalars, &latest_.scalars, sizeof latest_.scalars);
  if (loss_scales_) write(lowered().loss_scale, &latest_.loss_scale, sizeof latest_.loss_scale);
  window_steps_ = 0;
}

void Engine::write(ValueId id, const void* from, size_t bytes) {
  std::memcpy(mirror(id), from, bytes);
  upload(id);
}

std::byte* Engine::mirror(ValueId id) {
  const Tensor value = bound_.tensor(id);
  if (on_host(id)) return value.data;
  Memory& memory = mirrors_[id];
  if (memory.data() == nullptr) memory = backend_.allocate_host(static_cast<size_t>(stored_bytes(lowered()[id])));
  return memory.data();
}

void Engine::download(ValueId id) {
  if (on_host(id)) return backend_.wait();
  backend_.copy(mirror(id), bound_.tensor(id).data, static_cast<size_t>(stored_bytes(lowered()[id])));
  backend_.wait();
}

void Engine::upload(ValueId id) {
  if (on_host(id)) return;
  backend_.copy(bound_.tensor(id).data, mirror(id), static_cast<size_t>(stored_bytes(lowered()[id])));
  backend_.wait();
}

std::vector<double> Engine::drain_losses() {
  run_pending();
  losses_.settle();
  return in_order(local_losses_);
}

std::vector<double> Engine::drain_balances() {
  run_pending();
  if (balances_.empty()) return {};
  for (OutputLog& balance : balances_) balance.settle();
  std::vector<double> sums(local_balances_.front().size());
  for (std::vector<double>& one : local_balances_) {
    std::ranges::transform(sums, one, sums.begin(), std::plus());
    one.clear();
  }
  return in_order(sums);
}

std::vector<double> Engine::in_order(std::vector<double>& local) {
  throw_if_aborted(comm_);
  const Distribution& d = bound_.lowered().distribution;
  std::vector<double> all(local.size() * static_cast<size_t>(d.ranks));
  comm_.gather_all(std::as_bytes(std::span(local)), std::as_writable_bytes(std::span(all)));
  std::vector<double> ordered(all.size());
  const size_t a = static_cast<size_t>(d.accumulation), s = static_cast<size_t>(d.micro_batches());
  for (size_t step = 0; step < local.size() / a; ++step)
    for (int r = 0; r < d.ranks; ++r)
      for (int j = 0; j < d.accumulation; ++j)
        ordered[step * s + static_cast<size_t>(d.micro_batch(r, j))] =
            all[static_cast<size_t>(r) * local.size() + step * a + static_cast<size_t>(j)];
  local.clear();
  return ordered;
}

std::vector<StateBuffer> Engine::state() {
  settle();
  std::vector<StateBuffer> buffers;
  for (const HeldState& s : lowered().states) {
    download(s.value);
    buffers.push_back(buffer_of(s));
  }
  throw_if_aborted(comm_);
  return buffers;
}

StateBuffer Engine::buffer_of(const HeldState& state) {
  return {state.kind, state.name, mirror(state.value), state.held, state.scope};
}

void Engine::state_written() {
  settle();
  for (const HeldState& s : lowered().states) upload(s.value);
  follow_masters();
}

namespace {
/// Calls f(weights, average) for what is held of both.
template <class F>
void each_pair(const StateBuffer& weights, const StateBuffer& average, F f) {
  for (const Range& range : average.ranges())
    for (const Run& part : intersection(weights.held, range)) f(weights(part.range), average(part.range));
}
}  // namespace

void Engine::begin_average() {
  if (!lowered().has_ema()) return;
  const auto buffers = state();
  each_pair(buffers[0], buffers[1],
            [](std::span<float> weights, std::span<float> average) { std::ranges::copy(weights, average.begin()); });
  upload(lowered().states[1].value);
}

void Engine::exchange_average() {
  check(lowered().has_ema(), "there is no average of the weights");
  settle();
  backend_.wait();
  comm_.barrier();  // peers may be reading what this rank owns
  const HeldState &weights = lowered().states[0], &average = lowered().states[1];
  for (const HeldState* s : {&weights, &average}) download(s->value);
  each_pair(buffer_of(weights), buffer_of(average),
            [](std::span<float> a, std::span<float> b) { std::swap_ranges(a.begin(), a.end(), b.begin()); });
  for (const HeldState* s : {&weights, &average}) upload(s->value);
  follow_masters();
}

/// What layers compute with, when masters have been written from outside.
void Engine::follow_masters() {
  comm_.barrier();  // from here on collectives may be under way, beside which no rank should allocate what it needs
  bound_.run_begin();
  backend_.wait();  // the host's own collectives may come next, for which nobody's device should have to wait
}

void Engine::write_images(const std::function<void(int64_t first, std::span<uint8_t> to)>& read) {
  constexpr int64_t kPartBytes = 8 << 20;
  const int64_t count = resident_images();
  if (count == 0) return;
  settle();
  const Tensor set = bound_.tensor(lowered().ports.images);
  const int64_t bytes = set.shape.numel() / count, part = std::clamp<int64_t>(kPartBytes / bytes, 1, count);
  const Memory staging = backend_.allocate_host(static_cast<size_t>(part * bytes));
  for (int64_t first = 0; first < count; first += part) {
    const auto size = static_cast<size_t>(std::min(part, count - first) * bytes);
    read(first, {reinterpret_cast<uint8_t*>(staging.data()), size});
    backend_.copy(set.data + first * bytes, staging.data(), size);
    backend_.wait();
  }
}

std::span<const std::byte> Engine::read_params() {
  settle();
  const ValueId params = lowered().params;
  download(params);
  return {mirror(params), static_cast<size_t>(stored_bytes(lowered()[params]))};
}

Evaluator::Evaluator(Backend& backend, Communicator& comm, LoweredProgram program, const BindOptions& options)
    : backend_(backend),
      comm_(comm),
      bound_(backend, comm, std::move(program), options),
      feed_(backend, bound_),
      losses_(static_cast<size_t>(batch())),
      predicted_(losses_.size()),
      label_rank_(losses_.size()),
      outputs_(backend, bound_.tensor(bound_.lowered().ports.outputs), [this](const std::byte* block) {
        const LoweredProgram& program = bound_.lowered();
        const auto take = [&](ValueId id, auto& to) {
          std::memcpy(to.data(), block + program[id].offset, to.size() * sizeof to[0]);
        };
        take(program.ports.losses, losses_);
        take(program.ports.predicted, predicted_);
        take(program.ports.label_rank, label_rank_);
      }) {
  std::vector<RingCopy> after = feed_.fetch_next();
  std::ranges::copy(outputs_.append(), std::back_inserter(after));
  bound_.add({.before_micro = feed_.fetch(), .after_micro = after});
}

void Evaluator::run() {
  feed_.send();
  bound_.run_micro();
  feed_.sent();
  outputs_.keep();
  outputs_.settle();
  throw_if_aborted(comm_);
}

/// The loss is the program's last operation, so nothing has taken the place of what it reads.
std::vector<float> Evaluator::logits() const {
  const Op& last = bound_.lowered().micro.back().op;
  const Tensor logits = bound_.tensor(std::get<SoftmaxCrossEntropy>(std::get<ComputeOp>(last)).logits);
  const int64_t rows = logits.shape[0], classes = logits.shape[1], stride = logits.shape.stored() / rows;
  std::vector<float> stored(static_cast<size_t>(logits.shape.stored()));
  backend_.copy(stored.data(), logits.data, stored.size() * sizeof(float));
  backend_.wait();
  std::vector<float> packed;
  for (auto row = stored.begin(); row != stored.end(); row += stride) packed.insert(packed.end(), row, row + classes);
  return packed;  // without what pads the rows
}

bool Evaluator::collective() const {
  const Program& steps = bound_.lowered().micro;
  return std::any_of(steps.begin(), steps.end(), [](const Step& s) { return std::holds_alternative<CommOp>(s.op); });
}

}  // namespace ct
