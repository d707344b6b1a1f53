// `data convert`
#pragma once

#include "cli/verbs.h"

namespace ct {

int data_convert(const Words& words);

}  // namespace ct
