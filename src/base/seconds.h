// Measures time.
#pragma once

#include <chrono>

namespace ct {

/// The wall-clock time of work(), in seconds.
template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace ct
