// Converts any exception to an Error with its exit code.
#pragma once

#include "base/error.h"

namespace ct {

/// The advice of that error, which a caller that knows better may replace.
inline constexpr const char* kUseLess = "use fewer ranks or smaller batches";

/// The exception of the current catch block as an Error. A failed allocation or thread start is Error(memory); any
/// other exception that is not an Error is a bug.
Error error_in_flight();

}  // namespace ct
