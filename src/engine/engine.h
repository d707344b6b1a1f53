// Training and evaluation on one rank: feeds micro-batches, runs the programs, counts steps and collects losses.
#pragma once

#include <functional>
#include <map>
#include <span>

#include "engine/bind.h"
#include "engine/feed.h"
#include "plan/step_scalars.h"

namespace ct {

/// One kind of training state on this rank (see HeldState), in host memory: all elements, or those that the rank owns
/// (plan/shards.h).
struct StateBuffer {
  StateKind kind;
  std::string name;
  std::byte* data;
  std::vector<Run> held;
  Scope scope;
  /// Elements of the flat order, which must be in one run.
  std::span<float> operator()(const Range& range) const {
    return {reinterpret_cast<float*>(data + byte_of(held, range.begin)), static_cast<size_t>(range.size())};
  }
  std::vector<Range> ranges() const;
};

/// The result of an update.
struct Outcome {
  StepScalars scalars;
  LossScaleState loss_scale;  // if there is one
};

/// The schedule: returns the values for the (step + 1)-th applied step; step counts from 0.
using Schedule = std::function<ScheduleRow(int64_t step)>;

class Engine {
 public:
  Engine(Backend& backend, Communicator& comm, LoweredProgram program, Schedule schedule,
         const BindOptions& options = {});

  /// The buffers for the host to write the next micro-batch, or the one that comes `ahead` micro-batches after it. The
  /// first call after a micro_step() drops what was written ahead.
  Inputs inputs(int64_t ahead = 0) {
    run_pending();
    return feed_.next(ahead);
  }
  /// The number of micro-batches that inputs() takes before the first of them runs: they travel together.
  int64_t inputs_at_once() const { return feed_.at_once(); }
  /// Of those that were written before the latest micro_step() or finish_step(), what is not used up.
  int64_t inputs_left() const { return feed_.left() - pending_; }
  /// One micro-batch: forward, backward, sum of gradients. The last of a step also sums over ranks.
  void micro_step();
  /// Applies or skips the step; call after `accumulation` micro-steps. It may return before gathered parameters have
  /// arrived: micro_step(), state() and params() wait for them; all other readers must call settle().
  void update();
  /// The last micro_step() and the update() of a step. A device may get them later, together with those of other steps:
  /// in the calls that need what they read or write, at the latest.
  void finish_step();
  void settle() {
    run_pending();
    bound_.settle();
  }

  /// The scalars, and the whole outcome, after the latest update.
  const StepScalars& scalars() { return latest().scalars; }
  const Outcome& latest();
  /// The outcome of each update since the last call.
  std::vector<Outcome> drain_outcomes();
  /// The recommended number of updates between reads of scalars or losses, since each read waits for the device.
  int64_t look_interval() const { return backend_.is_host() ? 1 : kLookInterval; }
  /// Resumes counting from a checkpoint.
  void restore(const Outcome& outcome);

  /// For each global micro-batch since the last call, in order, the sum of its images' losses: S sums per step, which
  /// may be there only after the step's update. Collective.
  std::vector<double> drain_losses();
  /// For each of these micro-batches, the sum of the load balances of the model's mixtures of experts (Route). Empty if
  /// the model has none. Collective.
  std::vector<double> drain_balances();

  /// The current state buffers, the masters first. After writing into them the caller must call state_written().
  std::vector<StateBuffer> state();
  /// Collective: uploads written buffers to the device, and updates the weights in compute type from the masters.
  void state_written();

  /// The images of a set that lies in the device's memory (InputSpec::resident_images); 0: there is none.
  int64_t resident_images() const {
    return lowered().ports.index == kNone ? 0 : lowered()[lowered().ports.images].shape[0];
  }
  /// Copies that set to the device, part by part: `read` writes the images from number `first` on, u8 [C][H][W] each.
  void write_images(const std::function<void(int64_t first, std::span<uint8_t> to)>& read);

  /// Sets the average of the weights, if there is one, to the weights.
  void begin_average();
  /// Collective: swaps the weights with their average, and updates the weights of compute type. Before training, saving
  /// or comparing, a second call must swap them back, which restores every bit.
  void exchange_average();

  /// The part of the flat order that this rank saves; the parts of all ranks cover everything once.
  const std::vector<Range>& owned() const { return lowered().shards.owned(comm_.rank()); }

  const LoweredProgram& lowered() const { return bound_.lowered(); }
  BoundProgram& bound() {
    run_pending();
    return bound_;
  }
  /// The weights in compute type, in device memory.
  std::byte* params() {
    settle();
    return bound_.tensor(bound_.lowered().params).data;
  }
  /// A host copy of params(), valid until the next call.
  std::span<const std::byte> read_params();

 private:
  /// The values of all ranks' micro-batches, from each rank's own, in the order of global micro-batches. Collective.
  std::vector<double> in_order(std::vector<double>& local);

  static constexpr int64_t kLookInterval = 32;
  /// Host memory for a value: the value itself if it is in host memory, otherwise a buffer, allocated once.
  std::byte* mirror(ValueId id);
  bool on_host(ValueId id) const { return backend_.is_host() || lowered()[id].space == MemorySpace::host; }
  void download(ValueId id);
  void upload(ValueId id);
  void follow_masters();
  void keep_losses();
  void keep_results();
  void reserve_results(int64_t updates);
  int64_t steps_at_once() const;
  void begin_update();
  void run_pending();
  StateBuffer buffer_of(const HeldState& state);
  void write(ValueId id, const void* from, size_t bytes);

  Backend& backend_;
  Communicator& comm_;
  BoundProgram bound_;
  Schedule schedule_;
  InputFeed feed_;
  OutputLog losses_, scalars_;
  std::optional<OutputLog> loss_scales_;
  std::vector<OutputLog> balances_;  // of each mixture of experts
  Outcome latest_;
  std::vector<Outcome> recent_;
  size_t with_scale_ = 0;  // of recent_, those whose loss scale is known
  std::map<ValueId, Memory> mirrors_;
  int micro_steps_ = 0;       // done of this step
  int64_t pending_ = 0;       // steps of one micro-batch that finish_step() left to run_pending()
  int64_t window_steps_ = 0;  // updates since the schedule was uploaded
  std::vector<double> local_losses_;
  std::vector<std::vector<double>> local_balances_;  // of each mixture of experts
};

/// The forward pass over the parameters of an engine, or any others, in the layout that layers read.
class Evaluator {
 public:
  Evaluator(Backend& backend, Communicator& comm, LoweredProgram program, const BindOptions& options);
  /// Every thread that uses it, one at a time, must call this first.
  void enter_thread() { backend_.enter_thread(); }
  /// The buffers for the host to write the batch of run().
  Inputs inputs() { return feed_.next(); }
  void run();
  /// Does run() communicate between ranks (ZeRO stage 3)? Then every rank must call it equally often.
  bool collective() const;
  int64_t batch() const { return bound_.lowered()[bound_.lowered().ports.labels].shape[0]; }
  /// The results of the latest batch, by image.
  const std::vector<float>& losses() const { return losses_; }
  const std::vector<int32_t>& predicted() const { return predicted_; }
  const std::vector<int32_t>& label_rank() const { return label_rank_; }
  /// The logits of the latest batch, [batch][classes].
  std::vector<float> logits() const;
  BoundProgram& bound() { return bound_; }
  const BoundProgram& bound() const { return bound_; }

 private:
  Backend& backend_;
  Communicator& comm_;
  BoundProgram bound_;
  InputFeed feed_;
  std::vector<float> losses_;
  std::vector<int32_t> predicted_, label_rank_;
  OutputLog outputs_;
};

}  // namespace ct
