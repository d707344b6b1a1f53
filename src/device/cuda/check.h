// One check for the calls of every library: CT_CUDA(cudaMalloc(&p, n)) throws an Error that names the call and what the
// library says of it.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/error.h"

namespace ct::cuda {

using ct::check;  // which the overload would hide

/// ExitCode::memory where memory runs out, usage where no device or driver fits, peer (naming the device and the host)
/// if the device is lost, else bug. Errors of kernels come up at a later call, so the message says "at or before".
void check(cudaError_t status, const char* call);

/// ": install ...": what to do where this keeps a program from any GPU.
std::string setup_remedy(cudaError_t status);

}  // namespace ct::cuda

/// Other libraries add an overload of check() for their own status.
#define CT_CUDA(call) ::ct::cuda::check((call), #call)
