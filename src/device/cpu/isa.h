// Which instruction set the vector kernels run with on this machine, and how a thread rounds: part of every result.
#pragma once

#include <string>

namespace ct::cpu {

/// Highway's name of the best target that was compiled and is supported here, e.g. "AVX3_DL".
std::string instruction_set();

/// Denormal results and operands count as zero in the calling thread: denormal moments would double Adam's time.
void flush_denormals_in_this_thread();

}  // namespace ct::cpu
