// What the operating system says of this process and machine.
#pragma once

#include <cstdint>
#include <string>

namespace ct {

std::string host_name();
/// The process's largest resident set so far, bytes (VmHWM): of this program only, not of what started it.
int64_t peak_resident_bytes();
/// The process's resident set now, pages that it shares counted in proportion (Pss), bytes; 0 where it is not told.
int64_t proportional_bytes();

}  // namespace ct
