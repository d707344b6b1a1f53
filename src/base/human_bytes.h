// Amounts of memory, for people.
#pragma once

#include <cstdint>
#include <string>

namespace ct {

/// "1.2 GB", "178 B": decimal units.
std::string human_bytes(uint64_t bytes);

}  // namespace ct
