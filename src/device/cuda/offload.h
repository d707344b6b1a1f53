// Updates with masters and moments in host memory (ZeRO-Offload: Ren et al., arXiv 2101.06840): gradients are copied to
// the host, the host updates, and the new weights are copied to the device in the compute type.
//
// The CPU backend computes each operation, with denormals kept, so the device's Adam (kernels/optimizer.h) gives the
// same bits. Such an update computes on the host when it is launched, so it cannot be recorded. Meanwhile the gradients
// of the program's next slice and the results of the previous one are copied.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "device/cuda.h"

namespace ct::cuda {

class CudaBackend;

/// All updates of one backend that compute on the host.
class Offload {
 public:
  explicit Offload(CudaBackend& backend);
  ~Offload();

  /// Are the operands of this operation in host memory?
  static bool wants(const ComputeOp& op, const std::vector<Value>& values);
  /// Prepares any operation. One that updates_a_copy() (an optimizer's update, Blend, or the Cast of masters to the
  /// compute type) overlaps its transfers. Kernels must be bound in the order of their launches.
  std::unique_ptr<Kernel> prepare(const ComputeOp& op, const std::vector<Value>& values);

 private:
  struct Slot;
  class Update;
  class Updates;
  class Staged;
  std::shared_ptr<Slot> next_slot();

  CudaBackend& backend_;
  std::unique_ptr<Backend> cpu_;
  std::vector<Update*> updates_;  // as bound
  int64_t largest_ = 0;           // elements of a slice
  std::array<std::shared_ptr<Slot>, kOffloadSlots> slots_;
  size_t turn_ = 0;
};

}  // namespace ct::cuda
