// Which GPUs there are, and whether this program can compute on them.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace ct::cuda {

inline constexpr int kLeastCapability = 80;  // sm_80: what kernels are compiled for (kernels/CMakeLists.txt)

struct Device {
  int number;        // among the visible ones
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // as nvidia-smi has it: the same GPU has the same in every process
  int capability;    // 90
  size_t bytes;      // of memory
};

/// Why there is nothing to compute on, in a line: no driver, one too old, no GPU; empty: there are GPUs.
std::string driver_problem();
/// Throws ExitCode::usage where there is no such GPU or it is too old, naming it and those that there are.
Device find_device(int number);

/// What kernels are compiled for: "sm_90a, compute_100".
std::string kernel_architectures();
/// "13.0" of 13000.
std::string version_text(int version);

}  // namespace ct::cuda
