// Packed files as a kind of data set.
#pragma once

#include "data/kinds.h"

namespace ct {

DataKind packed_kind();

}  // namespace ct
