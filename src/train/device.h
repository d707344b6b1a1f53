// The device of a rank, and how ranks' devices exchange what they compute.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"
#include "train/config/config.h"

namespace ct {

/// What layers compute with: f32, bf16 or fp16. An open bf16.enabled counts as false.
DType compute_type(const Config& config);
/// Gives an open bf16.enabled its value: true where this machine computes in it and fp16 was not asked for.
void settle_bf16(Config& config);
/// Throws ExitCode::usage where `backend` does not compute in that type.
void require_arithmetic(const Config& config, const Backend& backend);
/// Throws ExitCode::usage where `backend` does not compute in bf16, which the run that is to go on began in by itself.
void require_arithmetic_of_begun(const Backend& backend);

/// cpu or cuda: what `device` says, auto meaning cuda where there is a GPU that this program can compute on.
bool wants_cuda(const Config& config);
/// GPUs that are visible to this process, from the one that `device: cuda:N` names on (number 0 where it names none); 0
/// if that one cannot be used. `auto`: only those that can be used, from the first of them to the next one that cannot.
int gpu_count(const Config& config);
/// The number of the first of them.
int first_gpu(const Config& config);
/// Throws ExitCode::usage where the ranks of a host have not a GPU each and may not share.
void require_gpu_each(const Config& config, int64_t ranks, int64_t gpus);
/// Throws ExitCode::usage where training asks of the device what its kind does not do.
void require_fitting_device(const Config& config, bool on_gpu);

/// How ranks and GPUs go together; on CPUs as by default.
struct Sharing {
  int ranks_a_device = 1;  // that have one GPU together
  bool nccl = false;       // collectives go from GPU to GPU, not through the host's memory
};
/// The sharing of `ranks` ranks on this host, before there are any. Where no GPU is visible each rank is taken to have
/// its own.
Sharing foretell_sharing(const Config& config, int ranks);

/// Why `device: auto` computes on the CPU although people would expect it to find a GPU, or which GPU it cannot use;
/// empty: there is no such thing.
std::string gpu_left_out(const Config& config);

/// What training can do about too little memory.
inline constexpr const char* kTrainWithLess =
    "use a smaller train_micro_batch_size_per_gpu or train.eval_batch_size, or a higher zero_optimization.stage";

/// Where a run takes place, as the checkpoint records it: another kind may end in other bits. `local_rank`: among the
/// ranks of this host, for which there is a GPU each if there are as many. `memory_advice`: what errors advise
/// where memory runs out, "use ...". Error(usage) where the device, or its arithmetic, or cuda.path, is not there.
std::unique_ptr<Backend> make_backend(const Config& config, int local_rank = 0,
                                      const std::string& memory_advice = kTrainWithLess);

/// What one rank of several computes on, and what its engine's collectives go through.
class RankDevice {
 public:
  /// Collective; the calling thread will launch kernels. `host` outlives the object. Error(usage) where two ranks have
  /// the same GPU and communication.share_device does not allow it.
  RankDevice(const Config& config, Communicator& host, const std::string& memory_advice = kTrainWithLess);
  /// The orderly end, by all ranks together, when whatever used collectives() is gone; `host` goes on. Without it
  /// (after an error) the destructor waits for nobody.
  void finish();
  Backend& backend() { return *backend_; }
  /// The communicator of an engine's collectives: on CPUs `host` itself; between GPUs NCCL, where communication.backend
  /// wants or allows it, or else `host` by way of host memory.
  Communicator& collectives() { return collectives_ ? *collectives_ : host_; }
  /// The sharing as this rank finds it.
  const Sharing& sharing() const { return sharing_; }
  /// What is slower than it could be, for people; empty: nothing.
  const std::string& note() const { return note_; }

 private:
  Communicator& host_;
  std::unique_ptr<Backend> backend_;
  Sharing sharing_;
  std::unique_ptr<Communicator> collectives_;
  std::string note_;
};

}  // namespace ct
