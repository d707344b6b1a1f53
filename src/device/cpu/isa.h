// The instruction set of the vector kernels on this machine, and the treatment of denormals; results depend on both.
#pragma once

#include <string>

namespace ct::cpu {

/// Highway's name of the best compiled target that this machine supports, such as "AVX3_DL".
std::string instruction_set();

/// Treats denormal results and operands as zero in the calling thread, because denormal moments would double Adam's
/// time.
void flush_denormals_in_this_thread();

}  // namespace ct::cpu
