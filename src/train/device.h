// The device of a rank, and how ranks' devices exchange what they compute.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"
#include "train/config/config.h"

namespace ct {

/// What layers compute with: f32, bf16 or fp16.
DType compute_type(const Config& config);

/// cpu or cuda: what `device` says, auto meaning cuda where there is a GPU that this program can compute on.
bool wants_cuda(const Config& config);
/// That are visible to this process, from the one that `device: cuda:N` names on.
int gpu_count(const Config& config);

/// Where a run takes place, as the checkpoint records it: another kind may end in other bits. `local_rank`: among the
/// ranks of this host, for which there is a GPU each if there are as many. Error(usage) where the device, or its
/// arithmetic, is not there.
std::unique_ptr<Backend> make_backend(const Config& config, int local_rank = 0);

/// What one rank of several computes on, and what its engine's collectives go through.
class RankDevice {
 public:
  /// Collective; the calling thread will launch kernels. `host` outlives the object. Error(usage) where two ranks have
  /// the same GPU and communication.share_device does not allow it.
  RankDevice(const Config& config, Communicator& host);
  Backend& backend() { return *backend_; }
  /// On CPUs `host` itself; between GPUs NCCL, where communication.backend wants or allows it, or else `host` by way of
  /// host memory.
  Communicator& collectives() { return collectives_ ? *collectives_ : host_; }
  /// What is slower than it could be, for people; empty: nothing.
  const std::string& note() const { return note_; }

 private:
  Communicator& host_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> collectives_;
  std::string note_;
};

}  // namespace ct
