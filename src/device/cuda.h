// GPUs, in builds with and without CUDA (device/cuda/no_cuda.cpp): the backend, and facts about the machine.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "device/backend.h"
#include "plan/step_scalars.h"

namespace ct {

/// A rank's options for a GPU.
struct CudaOptions {
  int device = 0;                 // number among the GPUs that are visible to this process
  bool autotune = false;          // time the libraries' plans instead of using the first deterministic one
  bool tf32 = false;              // f32 products in TF32 (10-bit mantissas)
  std::string library_path = {};  // the folder that is searched first for cuDNN, cuBLAS and NCCL; empty: no such folder
  std::string memory_advice = {};  // advice in out-of-memory errors: "use a smaller ..."
};
/// Throws ExitCode::usage if a GPU, driver or library is missing, with its name and the searched places, and
/// ExitCode::memory.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);
/// How the program was built: the toolkit's version, "13.0", and the kernels' machine code and PTX, "sm_80" and
/// "compute_80". Both are empty in a build without CUDA.
struct CudaBuild {
  std::string toolkit;
  std::vector<std::string> architectures;
};
/// Uses neither driver nor GPU.
CudaBuild cuda_build();
/// The reason, in one line, why make_cuda_backend() cannot compute on this GPU; empty: it can. Fast; loads nothing if
/// there is no driver.
std::string cuda_problem(int device = 0);
/// Does a user expect to compute on a GPU here? False if a driver shows no GPU, or if there is neither driver nor GPU.
bool cuda_expected();
/// The number of GPUs that are visible to this process, including unsupported old ones; 0 without a driver.
int cuda_device_count();

/// A fact for users who ask why a GPU is not used, or is slow.
struct DeviceFact {
  std::string what;     // "cuDNN"
  std::string value;    // "9.10.2 in /usr/local/cuda/lib64/libcudnn.so.9"
  std::string warning;  // the problem and the remedy; empty: none
};
/// Driver, GPUs, CUDA and the libraries that are opened at run time: the place of each, or the searched places. Throws
/// ExitCode::usage if library_path is not a folder with such libraries.
std::vector<DeviceFact> cuda_facts(const CudaOptions& options);

/// Memory in addition to the values of programs. In GPU memory: the tables of SquareSums and LambMoments, one row a
/// chunk, and of TrustRatios, one row a tensor. In page-locked host memory: a few slots for the gradients and weights
/// of slices that the host updates.
inline constexpr size_t kCudaTableRowBytes = 3 * sizeof(int64_t);
inline constexpr size_t kCudaMomentsRowBytes = 7 * sizeof(int64_t), kCudaTensorRowBytes = 4 * sizeof(int64_t);
inline constexpr size_t kOffloadSlots = 2;
/// Does the operation change weights of which the device has a copy? The host executes such an operation slice by slice
/// through the slots below. For all other operations on the host, device operands are staged as a whole.
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
