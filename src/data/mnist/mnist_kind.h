// MNIST as a kind of data set.
#pragma once

#include "data/kinds.h"

namespace ct {

DataKind mnist_kind();

}  // namespace ct
