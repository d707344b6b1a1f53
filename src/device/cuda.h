// GPUs, in builds with CUDA and without (device/cuda/no_cuda.cpp): the backend, and what there is to say of the
// machine.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "device/backend.h"
#include "plan/step_scalars.h"

namespace ct {

/// What a rank asks of a GPU.
struct CudaOptions {
  int device = 0;         // among those that are visible to this process
  bool autotune = false;  // time the libraries' plans instead of taking the first deterministic one
  bool tf32 = false;      // f32 products by TF32's 10-bit mantissas
  std::string library_path =
      {};  // the folder that is searched first for cuDNN, cuBLAS and NCCL; empty: nowhere special
  std::string memory_advice = {};  // what errors advise where memory runs out: "use a smaller ..."
};
/// Throws ExitCode::usage where there is no GPU, driver or library to compute with, naming it and where it was looked
/// for, and ExitCode::memory.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);
/// "CUDA 13.0 for sm_80, compute_80", the toolkit and the kernels' machine code and PTX, or that this program is
/// without. Asks neither driver nor GPU.
std::string cuda_build();
/// Why make_cuda_backend() could not compute on this GPU, in a line; empty: it can. Quick, and loads nothing where
/// there is no driver.
std::string cuda_problem(int device = 0);
/// Would people expect to compute on a GPU here? Not where a driver shows none, nor where there is neither.
bool cuda_expected();
/// How many GPUs are visible to this process, old ones too; 0 where no driver shows them.
int cuda_device_count();

/// What somebody who wants to know why a GPU is not used, or used badly, should see.
struct DeviceFact {
  std::string what;     // "cuDNN"
  std::string value;    // "9.10.2 in /usr/local/cuda/lib64/libcudnn.so.9"
  std::string warning;  // what would go wrong, and the remedy; empty: nothing
};
/// Driver, GPUs, CUDA and the libraries that are opened at run time: which was found where, or where it was looked for.
/// Throws ExitCode::usage if library_path is no folder with such libraries.
std::vector<DeviceFact> cuda_facts(const CudaOptions& options);

/// What it takes beside the values of programs: of the GPU's memory the tables of SquareSums and LambMoments, a row a
/// chunk, and of TrustRatios, a row a tensor, and of the host's, page-locked, what travels of slices that the host
/// updates, a few at a time.
inline constexpr size_t kCudaTableRowBytes = 3 * sizeof(int64_t);
inline constexpr size_t kCudaMomentsRowBytes = 7 * sizeof(int64_t), kCudaTensorRowBytes = 4 * sizeof(int64_t);
inline constexpr size_t kOffloadSlots = 2;
/// Does it change weights, of which the device has a copy? By slices where the host does it, and by the slots below;
/// what else the host computes of a step has its device operands staged whole.
inline bool updates_a_copy(const ComputeOp& op) {
  return std::visit(
      []<class Op>(const Op& o) {
        return std::is_same_v<Op, Cast> || requires { o.slices[0].copy; };
      },
      op);
}
struct OffloadSlotBytes {
  explicit OffloadSlotBytes(int64_t elements) : grads(static_cast<size_t>(elements) * sizeof(float)), copy(grads / 2) {}
  size_t grads, copy, scalars = sizeof(StepScalars);
  int64_t sum() const { return static_cast<int64_t>(grads + copy + scalars); }
};

}  // namespace ct
