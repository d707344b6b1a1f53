// A fault of a disk may pass, that of a network file system mostly does: what decides which files are kept is read
// twice before it counts as unreadable.
#pragma once

#include "base/error.h"

namespace ct {

/// What `read` returns or throws, at its second call if the first one fails by the disk: Error(io).
template <class Read>
auto with_second_try(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::io) throw;
  }
  return read();
}

}  // namespace ct
