// NVRTC, by which other libraries compile kernels at run time.
#pragma once

#include <string>

#include "device/cuda/library.h"

namespace ct::cuda {

/// NVRTC, which once opened is found by whoever looks for it by its name, and so are its builtins: a file that it opens
/// itself when it compiles, by its name, so that from a folder that is not the loader's it would not find what lies
/// beside it.
class Nvrtc {
 public:
  /// `major`: of CUDA, in the file's name. Throws ExitCode::usage where it or its builtins are not there.
  Nvrtc(size_t major, const LibraryPlaces& places);
  /// "13.0 in /usr/local/cuda/lib64/libnvrtc.so.13, with /usr/local/cuda/lib64/libnvrtc-builtins.so.13.0"
  std::string description() const;
  /// Compiles a kernel. Throws ExitCode::usage with NVRTC's reason where it cannot.
  void try_out() const;

 private:
  Library library_;
  std::string version_;
  Library builtins_;
};

/// Opens NVRTC for a library that can do without, in other ways and perhaps slower; `doctor` tells what is missing.
void open_nvrtc_for(size_t major, const LibraryPlaces& places);

}  // namespace ct::cuda
