// Training and evaluation of one rank: feeds micro-batches, runs the programs, keeps the books.
#pragma once

#include <functional>
#include <span>

#include "engine/bind.h"
#include "plan/step_scalars.h"

namespace ct {

/// Where the host writes a micro-batch: images u8 [N][C][H][W], draws i32 [N][4], labels i32 [N].
struct Inputs {
  uint8_t* images;
  int32_t* draws;
  int32_t* labels;
};

/// One kind of training state on this rank: the f32 master weights ("weights", running statistics among them) or an
/// optimizer moment. A rank holds all of it, or what it owns (plan/shards.h).
struct StateBuffer {
  std::string name;
  std::byte* data;
  std::vector<Run> held;
  /// Elements of the flat order, which must lie in one run.
  std::span<float> operator()(const Range& range) const {
    return {reinterpret_cast<float*>(data + byte_of(held, range.begin)), static_cast<size_t>(range.size())};
  }
  std::vector<Range> ranges() const;
};

/// The schedule: what the (step + 1)-th applied step uses, step counting from 0.
using Schedule = std::function<ScheduleRow(int64_t step)>;

class Engine {
 public:
  Engine(Backend& backend, Communicator& comm, Lowered program, Schedule schedule, const BindOptions& options = {});

  const Inputs& inputs() const { return inputs_; }
  /// One micro-batch: forward, backward, sum of gradients. The last of a step also sums over ranks.
  void micro_step();
  /// Applies or skips the step; call after `accumulation` micro-steps. Parameters may then still be on their way, which
  /// micro_step(), state() and params() wait for; whoever else reads them calls settle().
  void update();
  void settle() { bound_.settle(); }

  const StepScalars& scalars() const { return *scalars_; }
  /// Resumes counting from a checkpoint.
  void restore(const StepScalars& scalars);

  /// The summed image losses of every global micro-batch since the last call, in order: S of them a step. Collective.
  std::vector<double> drain_losses();

  /// The masters first. Whoever writes into `weights` calls masters_written() afterwards.
  std::vector<StateBuffer> state();
  /// Collective: what layers compute with follows the masters.
  void masters_written() { bound_.run_begin(); }
  /// The part of the flat order that this rank saves: all ranks' parts together are everything, once.
  const std::vector<Range>& owned() const { return lowered().shards.owned(comm_.rank()); }

  const Lowered& lowered() const { return bound_.lowered(); }
  BoundProgram& bound() { return bound_; }
  const BoundProgram& bound() const { return bound_; }
  std::byte* params() {
    settle();
    return bound_.tensor(bound_.lowered().params).data;
  }

 private:
  void upload_schedule();

  Communicator& comm_;
  BoundProgram bound_;
  Schedule schedule_;
  Inputs inputs_;
  StepScalars* scalars_;
  const float* losses_;
  int64_t batch_;
  int micro_steps_ = 0;       // done of this step
  int64_t window_steps_ = 0;  // updates since the schedule was uploaded
  std::vector<double> local_losses_;
};

/// The forward pass over an engine's (or any) parameters, in the form that layers compute with.
class Evaluator {
 public:
  Evaluator(Backend& backend, Communicator& comm, Lowered program, const BindOptions& options)
      : bound_(backend, comm, std::move(program), options) {}
  Inputs inputs() const;
  void run() { bound_.run_micro(); }
  /// Do ranks meet in run() (ZeRO stage 3)? Then every rank calls it as often as the others.
  bool collective() const;
  /// Of the batch just run, image by image.
  std::span<const float> losses() const;
  std::span<const int32_t> predicted() const;
  std::span<const int32_t> larger() const;
  BoundProgram& bound() { return bound_; }
  const BoundProgram& bound() const { return bound_; }

 private:
  BoundProgram bound_;
};

}  // namespace ct
