// Files of a set that must differ and do not.
#pragma once

#include <vector>

#include "data/kinds.h"

namespace ct {

/// Gives each file that has the bytes of an earlier one, and no problem yet, that problem: it was copied over another.
void name_twins(std::vector<FileReport>& files);

}  // namespace ct
