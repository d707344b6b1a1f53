// Whatever was thrown, as an Error with its exit code.
#pragma once

#include "base/error.h"

namespace ct {

/// What a catch block has caught, as an Error. The system's refusal of memory or of a thread is Error(memory); what is
/// no Error otherwise, a bug.
Error error_in_flight();

}  // namespace ct
