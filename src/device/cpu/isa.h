// Which instruction set the vector kernels run with on this machine: part of every result.
#pragma once

#include <string>

namespace ct::cpu {

/// Highway's name of the best target that was compiled and is supported here, e.g. "AVX3_DL".
std::string instruction_set();

}  // namespace ct::cpu
