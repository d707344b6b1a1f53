// A lowered program bound to a backend and a communicator: memory in place, every operation prepared.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/tree_sum.h"
#include "device/backend.h"
#include "plan/memory.h"

namespace ct {

/// Where everything of a program would lie on a backend, without binding it.
MemoryPlan plan_program(Backend& backend, const Lowered& program);

class BoundProgram {
 public:
  /// `params`: the parameters of another bound program to share; empty: own ones. Collective over ranks.
  BoundProgram(Backend& backend, Communicator& comm, Lowered program, std::byte* params = nullptr);

  const Lowered& lowered() const { return program_; }
  const MemoryPlan& plan() const { return plan_; }
  Tensor tensor(ValueId id) const;

  void run_micro() { run(micro_); }
  void run_last() { run(last_); }
  void run_update() { run(update_); }

  /// Runs and times each step of micro/last and update once: (name, seconds).
  struct Timing {
    std::string name;
    double seconds;
  };
  std::vector<Timing> time_steps();

  size_t resident_bytes() const;
  size_t arena_bytes() const { return arena_.bytes(); }

 private:
  using Launch = std::function<void()>;
  using Kernels = std::vector<std::unique_ptr<Kernel>>;  // by step; null for communication
  static void run(const std::vector<Launch>& steps) {
    for (const Launch& step : steps) step();
  }
  void allocate_residents(std::byte* params);
  std::vector<Launch> bind(const Program& steps, const Kernels& kernels, bool uses_arena);
  Launch bind_comm(const CommOp& op);

  Backend& backend_;
  Communicator& comm_;
  Lowered program_;
  MemoryPlan plan_;
  Memory arena_;
  std::vector<Memory> memories_;
  std::vector<std::byte*> address_;  // by ValueId, null for views
  Kernels kernels_micro_, kernels_last_, kernels_update_;
  std::unique_ptr<TreeSum> shard_sum_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  std::vector<Launch> micro_, last_, update_;
};

}  // namespace ct
