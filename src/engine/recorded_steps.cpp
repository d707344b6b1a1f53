// The runs of a bound program: launched the first time, recorded the second, then replayed; several short steps by one
// launch.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/seconds.h"
#include "comm/all_ranks.h"
#include "engine/bind.h"

namespace ct {
namespace {

/// In the first one the device loads the kernels.
constexpr int64_t kRecordedRun = 1;

constexpr TrafficKind kKinds[] = {TrafficKind::training, TrafficKind::norms};

/// Of the steps that one launch replays.
constexpr size_t kMostNodesAtOnce = 128;
constexpr size_t kMostStepsAtOnce = 8;

}  // namespace

void BoundProgram::watch(Watch watch) {
  settle();
  watch_ = std::move(watch);
}

void BoundProgram::run_watched(const PhaseProgram& program) {
  settle();
  backend_.wait();
  for (const GraphSegment& segment : program.segments) {
    enter(segment.phase);
    for (const Bound& bound : segment.steps) {
      const double seconds = seconds_of([&] {
        if (bound.communication) {
          queue_.start(bound.launch);
          settle();
        } else {
          bound.launch();
        }
        backend_.wait();
      });
      if (bound.step == nullptr) continue;
      watch_(*bound.step, seconds);
      for (int i = 1; i <= bound.merged; ++i) watch_(bound.step[i], 0);
    }
  }
}

void BoundProgram::run(PhaseProgram& program) {
  if (watch_) return run_watched(program);
  const int64_t queue_begin = queue_.started();
  if (record_ && program.runs++ == kRecordedRun) record(program);
  for (GraphSegment& segment : program.segments) {
    enter(segment.phase);
    if (segment.replay) {
      segment.replay->launch();
      count(segment.moved);
    } else {
      run(segment, queue_begin);
    }
  }
}

/// What is called while it records takes no effect. What a library cannot do while it is recorded it can still do
/// launch by launch: then the part stays as it is, on all ranks, for collectives of a recording want recorded peers. As
/// kernels, a recording is taken up by a device that may have to rest: meanwhile no rank has a collective under way.
void BoundProgram::record(PhaseProgram& program) {
  const auto record_all = [&] {
    for (GraphSegment& segment : program.segments)
      if (segment.repeats) record(segment);
  };
  if (collective_) {
    backend_.wait();
    comm_.barrier();
  }
  try {
    collective_ ? run_on_all_ranks(comm_, record_all) : record_all();
  } catch (const Error& error) {
    if (comm_.aborted() || error.code() == ExitCode::peer) throw;  // the job has failed, or a device is lost
    for (GraphSegment& segment : program.segments) segment.replay.reset();
    backend_.wait();  // throws where the device has failed for good, which no launch would survive
    const bool first = not_recorded_.empty();
    not_recorded_ = error.what();
    if (first && warn_)
      warn_(str("kernels are launched one by one, because they could not be recorded (the same bits, slower): ",
                error.what()));
  }
}

/// Collectives count when they are launched, into a recording too.
void BoundProgram::record(GraphSegment& segment) {
  const Moved before = moved();
  const auto taken_back = [&] {
    const Moved after = moved();
    for (size_t i = 0; i < before.size(); ++i) segment.moved[i] = after[i] - before[i];
    count({before[0] - after[0], before[1] - after[1]});
  };
  try {
    segment.replay = backend_.record([&] { run(segment, queue_.started()); });
  } catch (...) {
    taken_back();
    throw;
  }
  taken_back();
}

size_t BoundProgram::nodes(const PhaseProgram& program) {
  size_t sum = 0;
  for (const GraphSegment& segment : program.segments)
    if (segment.replay) sum += segment.replay->nodes();
  return sum;
}

size_t BoundProgram::recorded_nodes(int64_t micro_batches) const {
  const size_t last = step_.segments.empty() ? nodes(last_) + nodes(update_) : nodes(step_);
  return static_cast<size_t>(micro_batches - 1) * nodes(micro_) + last;
}

BoundProgram::Moved BoundProgram::moved() const { return {comm_.traffic(kKinds[0]), comm_.traffic(kKinds[1])}; }

void BoundProgram::count(const Moved& moved) {
  for (size_t i = 0; i < moved.size(); ++i) comm_.count(kKinds[i], moved[i]);
}

void BoundProgram::run(const GraphSegment& segment, int64_t queue_begin) {
  for (const Bound& step : segment.steps) {
    if (step.communication) {
      queue_.start(step.launch);
    } else {
      if (step.after_update >= 0 && update_begin_) wait_for(*update_begin_ + step.after_update, segment.phase);
      if (step.after >= 0) wait_for(queue_begin + step.after, segment.phase);
      step.launch();
    }
  }
}

void BoundProgram::wait_for(int64_t communication, std::optional<StepPhase> then) {
  if (!queue_.beside()) return;
  enter(then ? std::optional(StepPhase::exchange) : std::nullopt);
  queue_.wait(communication);
  enter(then);
}

/// Ends what is timed with the wait for the exchanges under way.
void BoundProgram::settle_in(StepPhase phase) {
  if (queue_.beside()) enter(phase);
  settle();
  if (phase_clock_) phase_clock_->leave();
}

void BoundProgram::run_begin() {
  settle();
  run(refresh_);
  settle();
}

void BoundProgram::run_micro() {
  run(micro_);
  settle_in(StepPhase::exchange);
}

void BoundProgram::run_last() {
  run(last_);
  settle_in(StepPhase::exchange);
}

void BoundProgram::run_update() {
  settle();
  update_begin_ = queue_.started();
  run(update_);
  // The host's own collectives may come next; not every transport can run them beside the queue's.
  if (!comm_.overlaps())
    settle_in(StepPhase::update_exchange);
  else if (phase_clock_)
    phase_clock_->leave();
}

/// Without an update's exchange beside the next micro-batch (on a CPU), and not timed apart.
void BoundProgram::run_step(int64_t times) {
  if (!record_ || phase_clock_ || watch_) {
    run_last();
    return run_update();
  }
  if (step_.segments.empty()) step_ = joined(last_, update_);
  if (times > 1) return steps_->launch();
  run(step_);
  if (step_.runs == kRecordedRun + 1) record_steps();
}

BoundProgram::PhaseProgram BoundProgram::joined(const PhaseProgram& first, const PhaseProgram& second) {
  PhaseProgram both;
  for (const PhaseProgram* part : {&first, &second})
    for (const GraphSegment& segment : part->segments) {
      if (both.segments.empty() || both.segments.back().repeats != segment.repeats)
        both.segments.push_back({.repeats = segment.repeats, .phase = {}});
      std::vector<Bound>& steps = both.segments.back().steps;
      steps.insert(steps.end(), segment.steps.begin(), segment.steps.end());
    }
  return both;
}

/// Of a short step that is one recording: what passes between two launches then passes less often. On one rank, where
/// nobody else has to do it at the same time.
void BoundProgram::record_steps() {
  if (collective_ || step_.segments.size() != 1 || !step_.segments.front().replay) return;
  const size_t steps = std::min(kMostNodesAtOnce / nodes(step_), kMostStepsAtOnce);
  if (steps < 2) return;
  const GraphSegment& step = step_.segments.front();
  try {
    steps_ = backend_.record([&] {
      for (size_t i = 0; i < steps; ++i) run(step, queue_.started());
    });
    steps_at_once_ = static_cast<int64_t>(steps);
  } catch (const Error& error) {  // no memory for it
    if (error.code() == ExitCode::peer) throw;
    backend_.wait();
    if (warn_)
      warn_(
          str("steps are launched one by one, because several could not be recorded together (the same bits, slower): ",
              error.what()));
  }
}

PhaseSeconds BoundProgram::take_phases() { return phase_clock_ ? phase_clock_->take() : PhaseSeconds{}; }

std::vector<BoundProgram::Timing> BoundProgram::time_steps() {
  check(backend_.is_host(), "steps of a device are not timed one by one");
  std::vector<Timing> timings;
  const Watch before = std::exchange(watch_, [&](const Step& step, double took) {
    timings.push_back({std::string(name_of(step.op)), took});
  });
  run_watched(last_.segments.empty() ? micro_ : last_);
  run_watched(update_);
  watch_ = before;
  return timings;
}

}  // namespace ct
