// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720 appendix B.4): detects every single damaged byte and
// every burst of up to 32 bits. Uses the processor's instruction or, without one, tables, with the same results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// Continues the checksum `crc` with `bytes`: crc32c(b, crc32c(a)) is the checksum of a and b concatenated.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
uint32_t crc32c(std::string_view text, uint32_t crc = 0);

/// The checksum of the concatenation of data with checksum `first` and `bytes` bytes with checksum `second`.
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t bytes);

/// The implementation with tables, the fallback of crc32c().
uint32_t crc32c_tables(std::span<const std::byte> bytes, uint32_t crc = 0);

/// Converts a checksum to eight lower-case hexadecimal digits, and back; any other text is nullopt.
std::string crc_text(uint32_t crc);
std::optional<uint32_t> parse_crc(std::string_view text);

}  // namespace ct
