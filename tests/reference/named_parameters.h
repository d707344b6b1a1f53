// What the references of networks share: parameters by their names in PyTorch's state_dict, and the mean loss.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "selftest/reference/dense.h"

namespace ct::reference {

template <class T>
using NamedParameters = std::map<std::string, std::vector<T>>;

/// Over images, whose logits lie row by row.
template <class T>
T mean_loss(const std::vector<T>& logits, const std::vector<int>& labels) {
  const auto n = static_cast<int64_t>(labels.size()), classes = static_cast<int64_t>(logits.size()) / n;
  T loss = 0;
  for (int64_t i = 0; i < n; ++i)
    loss += softmax_cross_entropy(std::vector<T>(logits.begin() + i * classes, logits.begin() + (i + 1) * classes),
                                  labels[static_cast<size_t>(i)], 0) /
            static_cast<double>(n);
  return loss;
}

}  // namespace ct::reference
