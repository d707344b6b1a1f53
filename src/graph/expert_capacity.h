// The capacity of an expert: the largest number of rows that it processes. An expert's rows have a fixed place in
// memory, so the capacity depends on the configuration and not on the choices of a gate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ct {

/// The capacity of an expert for `rows`: min(rows, max(ceil(rows / experts * factor * top_k), least, 1)).
inline int64_t expert_capacity(int64_t rows, int64_t experts, int top_k, double factor, int64_t least) {
  const float share = static_cast<float>(static_cast<double>(rows) / static_cast<double>(experts));
  const float room = std::ceil(share * static_cast<float>(factor * top_k));  // in f32, as in DeepSpeed
  const int64_t most = room < static_cast<float>(rows) ? static_cast<int64_t>(room) : rows;
  return std::min(rows, std::max(most, std::max<int64_t>(least, 1)));
}

}  // namespace ct
