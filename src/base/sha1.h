// SHA-1 (FIPS 180-4), in which others have published checksums. It proves nothing against who forges a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ct {

/// The digest as 40 lower-case hexadecimal digits; empty where the system's policy forbids SHA-1.
std::string sha1_hex(std::span<const std::byte> bytes);

}  // namespace ct
