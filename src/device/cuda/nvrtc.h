// NVRTC, with which other libraries compile kernels at run time.
#pragma once

#include <string>

#include "device/cuda/library.h"

namespace ct::cuda {

/// NVRTC and its builtins. Once opened, other libraries find them by name. NVRTC opens its builtins by name when it
/// compiles, and would not find them in a folder that the loader does not search.
class Nvrtc {
 public:
  /// `major`: CUDA's major version in the file name. Throws ExitCode::usage if NVRTC or its builtins are missing.
  Nvrtc(size_t major, const LibraryPlaces& places);
  /// "13.0 in /usr/local/cuda/lib64/libnvrtc.so.13, with /usr/local/cuda/lib64/libnvrtc-builtins.so.13.0"
  std::string description() const;
  /// Compiles a kernel. Throws ExitCode::usage with NVRTC's reason if that fails.
  void try_out() const;

 private:
  Library library_;
  std::string version_;
  Library builtins_;
};

/// Opens NVRTC for a library that also works without it, possibly slower; `doctor` reports a missing NVRTC.
void open_nvrtc_for(size_t major, const LibraryPlaces& places);

}  // namespace ct::cuda
