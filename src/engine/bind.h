// A lowered program bound to a backend and a communicator: memory in place, every operation prepared.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/backend.h"
#include "engine/comm_queue.h"
#include "engine/phase_clock.h"
#include "plan/memory.h"

namespace ct {

/// The memory plan of a program on a backend, without binding it.
MemoryPlan plan_program(Backend& backend, const LoweredProgram& program);

/// A finished collective: its content ("gradients", "parameters", "norms"), the bytes of its message (plan/traffic.h),
/// and the time that this rank spent in it, including waiting for other ranks.
struct Exchange {
  std::string name, what;
  int64_t bytes = 0;
  double seconds = 0;
};

struct BindOptions {
  std::byte* params = nullptr;  // of another bound program, to share; null: its own
  std::span<std::byte> arena =
      {};                   // of another bound program that never runs at the same time; not used if it is too small
  int64_t least_arena = 0;  // least bytes of its own arena, for another program that will share it
  CommQueueOptions queue;
  bool record = true;                                 // record repeated steps, if the device can replay them
  bool time_phases = false;                           // for take_phases(); each phase is then recorded separately
  std::function<void(const std::string&)> warn = {};  // called with the cause of a slower execution
  /// Called for each collective, in the thread that launches it. A GPU then waits for each collective.
  std::function<void(const Exchange&)> exchanged = {};
};

class BoundProgram {
 public:
  /// Collective over ranks. Where collectives run in the device's stream, it returns only when all ranks have launched
  /// every kernel once: a device may have to become idle before it loads a new kernel, and a collective that waits
  /// there for another rank would then never end.
  BoundProgram(Backend& backend, Communicator& comm, LoweredProgram program, const BindOptions& options = {});

  const LoweredProgram& lowered() const { return program_; }
  Tensor tensor(ValueId id) const;
  std::span<std::byte> arena() const { return arena_; }

  /// Transfers that become a part of the programs, before any of them runs: a launch before each micro-batch (empty:
  /// none), copies after each but the step's last, and copies of the update, by the kernel of StepControl or at the
  /// end.
  struct Transfers {
    std::function<void()> before_micro;
    std::vector<RingCopy> after_micro = {}, after_update = {};
  };
  void add(const Transfers& transfers);

  void run_begin();
  void run_micro();
  void run_last();
  /// May return before parameters have arrived on other ranks: run_micro() and run_last() wait for each at its first
  /// use; all other users must call settle().
  void run_update();
  /// run_last() and run_update(), by one replay if the device can; `times`: one of one micro-batch each, 1 or
  /// steps_at_once().
  void run_step(int64_t times = 1);
  /// How many steps of one micro-batch one replay repeats: more than 1 for short ones, once they are recorded.
  int64_t steps_at_once() const { return steps_at_once_; }
  /// Waits until all communication is complete.
  void settle() { queue_.drain(); }

  /// Runs and times each step of micro/last and update once: (name, seconds). Communication runs in line.
  struct Timing {
    std::string name;
    double seconds;
  };
  std::vector<Timing> time_steps();

  /// With BindOptions::time_phases: the times of run_micro(), run_last() and run_update() since the last call.
  PhaseSeconds take_phases();

  /// Sets an observer, which is called after each step of lowered(); null: none. Of steps that one kernel computes, the
  /// first has all the time. With an observer, steps run one after another and communication runs in line. All ranks
  /// must set one at the same time, or none. The bits are the same.
  using Watch = std::function<void(const Step& step, double seconds)>;
  void watch(Watch watch);

  const MemoryPlan& plan() const { return plan_; }
  /// The allocated memory; gradients include partial sums.
  MemoryUse allocated() const;

  /// Why a program is launched kernel by kernel instead of replayed; empty: none is.
  const std::string& not_recorded() const { return not_recorded_; }
  /// Nodes of the recordings of a step of that many micro-batches, the exchange between ranks left out; 0: none yet.
  size_t recorded_nodes(int64_t micro_batches) const;

 private:
  using Launch = CommQueue::Launch;
  using Kernels = std::vector<std::unique_ptr<Kernel>>;  // by step; null for communication
  struct Bound {
    Launch launch;
    bool communication = false;
    bool recordable = true;  // computation
    int after = -1, after_update = -1;
    int merged = 0;              // steps behind `step` that the same kernel computes
    const Step* step = nullptr;  // null: a transfer
  };
  using Moved = std::array<Traffic, 2>;  // training, norms
  /// Steps that are recorded together, if the device can replay them, and timed together, if phases are timed.
  struct GraphSegment {
    std::vector<Bound> steps;
    bool repeats;
    std::optional<StepPhase> phase;
    std::unique_ptr<Replay> replay = nullptr;
    Moved moved = {};  // by the collectives of a replay
  };
  /// A program that runs as a whole: launched the first time, so that the device loads kernels on first use, then
  /// recorded.
  struct PhaseProgram {
    std::vector<GraphSegment> segments;
    int64_t runs = 0;
  };
  static size_t nodes(const PhaseProgram& program);
  static PhaseProgram joined(const PhaseProgram& first, const PhaseProgram& second);
  void run(PhaseProgram& program);
  void run(const GraphSegment& segment, int64_t queue_begin);
  void wait_for(int64_t communication, std::optional<StepPhase> then);
  void settle_in(StepPhase phase);
  void enter(std::optional<StepPhase> phase) {
    if (phase_clock_) phase_clock_->enter(phase);
  }
  void run_watched(const PhaseProgram& program);
  void record(PhaseProgram& program);
  void record(GraphSegment& segment);
  void record_steps();
  Moved moved() const;
  void count(const Moved& moved);
  void load_kernels();
  std::byte* allocate_shared(size_t bytes);
  void allocate_residents(std::byte* params);
  void allocate_scratch();
  PhaseProgram bind(const Program& steps, const Kernels& kernels, bool uses_arena,
                    const std::vector<std::optional<StepPhase>>& phases);
  Launch bind_comm(const CommOp& op);
  Launch timed(Launch launch, const CommOp& op) const;
  bool narrows() const;
  Narrowing narrowing(const Range& range, int64_t first) const;
  Ownership ownership(const std::vector<Run>& place, bool in_place, AllGather::What what,
                      const std::vector<int>& owners = {}) const;
  std::span<std::byte> bytes_of(ValueId id) const;

  Backend& backend_;
  Communicator& comm_;
  LoweredProgram program_;
  MemoryPlan plan_;
  MemoryUse allocated_;
  std::span<std::byte> arena_;
  std::byte *exchange_ = nullptr, *scratch_ = nullptr;
  std::vector<Memory> memories_, host_memories_;
  std::vector<std::pair<std::byte*, size_t>> of_comm_;  // memory of the communicator
  std::vector<std::byte*> address_;                     // by ValueId, null for views
  Kernels kernels_refresh_, kernels_micro_, kernels_last_, kernels_update_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::map<std::pair<std::byte*, int64_t>, std::unique_ptr<Reduction>> reductions_;  // by whole and first element
  PhaseProgram refresh_, micro_, last_, update_;
  PhaseProgram step_;              // last_ and update_; empty until run_step()
  std::unique_ptr<Replay> steps_;  // steps_at_once_ of it, if there are several
  int64_t steps_at_once_ = 1;
  std::function<void(const std::string&)> warn_;
  std::function<void(const Exchange&)> exchanged_;
  Watch watch_;
  std::string not_recorded_;
  bool record_;
  std::optional<PhaseClock> phase_clock_;
  bool collective_;                      // do all ranks run every part equally often?
  std::optional<int64_t> update_begin_;  // number on the queue of the last update's first communication
  CommQueue queue_;                      // declared last: its thread ends before the members that it uses are destroyed
};

}  // namespace ct
