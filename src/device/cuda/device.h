// The GPUs of this machine, and whether this program supports them.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace ct::cuda {

inline constexpr int kLeastCapability = 80;  // sm_80: the lowest target of the kernels (kernels/CMakeLists.txt)

struct Device {
  int number;        // among the visible ones
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // as in nvidia-smi; the same in every process
  int capability;    // 90
  size_t bytes;      // of memory
};

/// The reason, in one line, why there is no usable GPU: no driver, an old driver, no GPU; empty: there are GPUs.
std::string driver_problem();
/// Throws ExitCode::usage if there is no such GPU or it is too old, with the available ones.
Device find_device(int number);

/// The targets of the compiled kernels: "sm_90a", "compute_100".
std::vector<std::string> kernel_architectures();
/// "13.0" of 13000.
std::string version_text(int version);

}  // namespace ct::cuda
