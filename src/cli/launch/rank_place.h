// Variables by which `launch` passes settings to its ranks.
#pragma once

#include <string>

#include "comm/detect_launch.h"

namespace ct {

/// "0,1;0,2": GPUs by host, in the order of ranks; becomes CUDA_VISIBLE_DEVICES.
inline constexpr const char* kDevicesVariable = "CIFAR_TRAIN_DEVICES";
/// "all", or a list of logical CPUs that the ranks of a host share.
inline constexpr const char* kCoresVariable = "CIFAR_TRAIN_CORES";
/// "DIR/20250131120000": standard output and error go to DIR/20250131120000_rank0.log and so on.
inline constexpr const char* kLogVariable = "CIFAR_TRAIN_LOG";

/// The GPUs of the host of rank `rank`, "0,2". Throws ExitCode::usage if the list has no such rank.
std::string devices_of_rank(const std::string& devices, int rank);

/// Applies these variables, if they are set. Must be called before any output, threads and GPU calls. Throws
/// ExitCode::usage with the invalid variable, io if the log cannot be written.
void take_place(const Environment& environment);

}  // namespace ct
