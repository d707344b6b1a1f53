// Numbers of things, for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ct {

/// "1 picture", "0 pictures", "3 pictures".
inline std::string counted(int64_t count, std::string_view one) { return str(count, " ", one, count == 1 ? "" : "s"); }

}  // namespace ct
