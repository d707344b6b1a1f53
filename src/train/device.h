// The device of a rank, and the communication between ranks' devices.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"
#include "train/config/config.h"

namespace ct {

/// The compute type: f32, bf16 or fp16. bf16.enabled counts as false while it is `auto`.
DType compute_type(const Config& config);
/// Replaces `auto` of bf16.enabled: true if this machine computes in bf16 and fp16 is off.
void settle_bf16(Config& config);
/// Throws ExitCode::usage if `backend` does not support the compute type.
void require_arithmetic(const Config& config, const Backend& backend);
/// Throws ExitCode::usage if `backend` does not support bf16, which the resumed run had chosen itself.
void require_arithmetic_of_begun(const Backend& backend);

/// Is the device cuda? `device: auto` means cuda if there is a GPU that this program can use.
bool wants_cuda(const Config& config);
/// The number of GPUs that are visible to this process, from GPU N of `device: cuda:N` (default 0) on; 0 if GPU N
/// cannot be used. `auto`: from the first usable GPU up to the next unusable one.
int gpu_count(const Config& config);
/// The number of the first GPU that gpu_count() counts.
int first_gpu(const Config& config);
/// Throws ExitCode::usage if a host has fewer GPUs than ranks and ranks may not share them.
void require_gpu_each(const Config& config, int64_t ranks, int64_t gpus);
/// Throws ExitCode::usage if the configuration requires features that this kind of device does not support.
void require_fitting_device(const Config& config, bool on_gpu);

/// The assignment of ranks to GPUs; the default values apply on CPUs.
struct Sharing {
  int ranks_a_device = 1;  // ranks that share one GPU
  bool nccl = false;       // collectives use NCCL, not host memory
};
/// The predicted sharing of `ranks` ranks on this host. If no GPU is visible, each rank is assumed to have its own.
Sharing foretell_sharing(const Config& config, int ranks);

/// With `device: auto`: why the CPU is used although a GPU is expected, or which GPU cannot be used; empty: neither.
std::string gpu_left_out(const Config& config);

/// The advice for training with too little memory.
inline constexpr const char* kTrainWithLess =
    "use a smaller train_micro_batch_size_per_gpu or train.eval_batch_size, or a higher zero_optimization.stage";

/// The backend of a run, whose description the checkpoint records, because another kind of device may give other bits.
/// `local_rank`: the rank's number on this host, which selects its GPU if there are enough. `memory_advice`: the advice
/// in out-of-memory errors, "use ...". Error(usage) if the device, its arithmetic or cuda.path is missing.
std::unique_ptr<Backend> make_backend(const Config& config, int local_rank = 0,
                                      const std::string& memory_advice = kTrainWithLess);

/// The device of one rank of several, and the communicator of its engine.
class RankDevice {
 public:
  /// Collective; the calling thread must be the one that launches kernels. `host` must outlive the object. Error(usage)
  /// if two ranks have the same GPU without communication.share_device.
  RankDevice(const Config& config, Communicator& host, const std::string& memory_advice = kTrainWithLess);
  /// The normal end, called by all ranks when all users of collectives() are destroyed; `host` remains usable. Without
  /// it (after an error) the destructor does not wait for other ranks.
  void finish();
  Backend& backend() { return *backend_; }
  /// The communicator for an engine: on CPUs `host` itself; between GPUs NCCL, if communication.backend requires or
  /// allows it, otherwise `host` through host memory.
  Communicator& collectives() { return collectives_ ? *collectives_ : host_; }
  /// The actual sharing of this rank.
  const Sharing& sharing() const { return sharing_; }
  /// A message about a slower setup than possible; empty: none.
  const std::string& note() const { return note_; }

 private:
  Communicator& host_;
  std::unique_ptr<Backend> backend_;
  Sharing sharing_;
  std::unique_ptr<Communicator> collectives_;
  std::string note_;
};

}  // namespace ct
