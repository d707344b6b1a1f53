// The data that `ckpt inspect` and `ckpt diff` print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/tensors.h"

namespace ct {

struct TensorSummary {
  std::string name;
  StoredType dtype;
  std::vector<int64_t> shape;
  uint64_t elements = 0, nonfinite = 0;
  double min = 0, max = 0, mean = 0, l2 = 0;  // over the finite elements; 0 when there are none
  uint32_t crc = 0;                           // CRC32C of the stored bytes
};
std::vector<TensorSummary> summarise(const std::vector<TensorView>& tensors);

struct TensorDifference {
  enum class Kind { same_bytes, values, shape_or_type, only_first, only_second };
  std::string name;
  Kind kind;
  uint64_t differing = 0;      // elements whose bytes differ
  double largest = 0, l2 = 0;  // of |a - b|; infinite or NaN if an element is
};
/// The differences of two lists of tensors in any order: every name of either list, sorted bytewise.
std::vector<TensorDifference> differences(const std::vector<TensorView>& first, const std::vector<TensorView>& second);

}  // namespace ct
