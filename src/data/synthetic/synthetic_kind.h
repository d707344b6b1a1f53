// The synthetic set as a kind of data set: it lies in files of CIFAR-10's layout, and is made where it is not there.
#pragma once

#include "data/kinds.h"

namespace ct {

DataKind synthetic_kind();

}  // namespace ct
