// libFuzzer's entry, in a program of one target.
#include <cstdio>
#include <cstdlib>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string problem = ct::fuzz::problem_with(ct::fuzz::targets().front(), std::as_bytes(std::span(data, size)));
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n", problem.c_str());
  std::abort();
}
