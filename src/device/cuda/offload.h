// Updates whose masters and moments lie in the host's memory (ZeRO-Offload: Ren et al., arXiv 2101.06840): gradients
// come to the host, the host updates, and the new weights go back to the device in the type that layers compute with.
//
// The arithmetic is the CPU backend's, operation by operation, with denormals kept: the device's Adam (kernels/
// optimizer.h) gives the same bits. An update that is prepared here computes on the host when it is launched, so it
// cannot be recorded; the gradients of the next slice in the program travel meanwhile, and so do the results of the one
// before.
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

  /// Does what this operation reads lie in the host's memory?
  static bool wants(const ComputeOp& op, const std::vector<Value>& values);
  /// Any operation. One that updates_a_copy(), an optimizer's update, Blend, or the Cast of masters into what layers
  /// compute with, overlaps its transfers. Bound in the order in which they are launched.
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
