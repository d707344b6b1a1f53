// train.class_weights: how much the images of each class count in the training loss.
#pragma once

#include <map>
#include <string>

namespace ct {

/// Nothing (all classes count alike), auto, or weights of some classes by name (the others': 1). class_weights() of
/// train/class_balance.h makes numbers of them.
struct ClassWeights {
  bool automatic = false;
  std::map<std::string, double> by_name;

  bool empty() const { return !automatic && by_name.empty(); }
};

}  // namespace ct
