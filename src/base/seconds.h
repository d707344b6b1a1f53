// How long something takes.
#pragma once

#include <chrono>

namespace ct {

/// Seconds that work() takes, by the clock on the wall.
template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace ct
