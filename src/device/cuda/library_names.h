// The files of the libraries that are opened when a GPU is used, and their oldest versions, in their own numbers.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace ct::cuda {

inline constexpr char kCudnnFile[] = "libcudnn.so.9";
inline constexpr size_t kOldestCudnn = 90800;  // the first that knows every GPU that the kernels are compiled for
inline constexpr char kNcclFile[] = "libnccl.so.2";
inline constexpr size_t kOldestNccl = 21800;

/// The version of the CUDA runtime comes first, because it supports the same drivers. The used functions of cuBLASLt
/// are the same in both.
inline std::vector<std::string> cublaslt_files() {
  constexpr int kMine = CUDART_VERSION / 1000, kOther = kMine == 12 ? 13 : 12;
  return {"libcublasLt.so." + std::to_string(kMine), "libcublasLt.so." + std::to_string(kOther)};
}

}  // namespace ct::cuda
