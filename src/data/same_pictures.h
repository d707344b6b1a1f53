// Pictures that train and also judge: the same file in two parts of a set.
#pragma once

#include <string>

#include "data/hold_out.h"

namespace ct {

/// "2 validation pictures are also training pictures, such as ...", by the content of files of equal size; empty: there
/// are none, or `part` or `training` is no set of picture files. `use`: of `part`, "validation" or "test". Reads a few
/// KB of each such file on `threads` threads.
/// `among`: what the first part is.
std::string same_pictures(const ImagePart& training, const ImagePart& part, std::string_view use, int threads,
                          std::string_view among = "training");

}  // namespace ct
