// One check for the calls of all libraries: CT_CUDA(cudaMalloc(&p, n)) throws an Error with the call and the library's
// message.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/error.h"

namespace ct::cuda {

using ct::check;  // which the overload would hide

/// Throws ExitCode::memory if memory is exhausted, usage without a suitable device or driver, peer (with device and
/// host) if the device is lost, otherwise bug. A later call reports errors of kernels, so the message has "at or
/// before".
void check(cudaError_t status, const char* call);

/// ": install ...": the remedy for an error that makes all GPUs unusable.
std::string setup_remedy(cudaError_t status);

}  // namespace ct::cuda

/// Other libraries add an overload of check() for their own status.
#define CT_CUDA(call) ::ct::cuda::check((call), #call)
