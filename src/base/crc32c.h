// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720 appendix B.4): finds every single damaged byte and
// every burst of up to 32 bits. Uses the processor's instruction where there is one, tables elsewhere: same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// The checksum of what `crc` stands for followed by `bytes`: crc32c(b, crc32c(a)) is that of a and b joined.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
uint32_t crc32c(std::string_view text, uint32_t crc = 0);

/// The checksum of what `first` stands for followed by the `bytes` bytes that `second` stands for.
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t bytes);

/// The table form, which crc32c() falls back on.
uint32_t crc32c_tables(std::span<const std::byte> bytes, uint32_t crc = 0);

/// Eight lower-case hexadecimal digits, and back; nothing else is a checksum.
std::string crc_text(uint32_t crc);
std::optional<uint32_t> parse_crc(std::string_view text);

}  // namespace ct
