#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace ct {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;

/// kTables[k][b]: the effect of byte b followed by k zero bytes (slicing by 8).
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    t[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xff];
  }
  return t;
}();

/// Polynomials over GF(2) modulo the CRC's, the coefficient of x^0 in the highest bit.
constexpr uint32_t kOne = uint32_t{1} << 31;
uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ (b & 1 ? kPolynomial : 0);
  }
  return product;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> bytes, uint32_t crc) {
  uint64_t c = ~crc;
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    c = _mm_crc32_u64(c, word);
  }
  uint32_t rest = static_cast<uint32_t>(c);
  for (; n > 0; --n, ++p) rest = _mm_crc32_u8(rest, static_cast<uint8_t>(*p));
  return ~rest;
}
#endif

}  // namespace

uint32_t crc32c_tables(std::span<const std::byte> bytes, uint32_t crc) {
  uint32_t c = ~crc;
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  const auto at = [&p](size_t i) { return static_cast<uint32_t>(p[i]); };
  for (; n >= 8; n -= 8, p += 8) {
    c ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    c = kTables[7][c & 0xff] ^ kTables[6][c >> 8 & 0xff] ^ kTables[5][c >> 16 & 0xff] ^ kTables[4][c >> 24] ^
        kTables[3][at(4)] ^ kTables[2][at(5)] ^ kTables[1][at(6)] ^ kTables[0][at(7)];
  }
  for (; n > 0; --n, ++p) c = (c >> 8) ^ kTables[0][(c ^ at(0)) & 0xff];
  return ~c;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(bytes, crc);
#endif
  return crc32c_tables(bytes, crc);
}

uint32_t crc32c(std::string_view text, uint32_t crc) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())), crc);
}

uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t bytes) {
  // Bytes that follow multiply what came before by x^(8*bytes); the conditioning of both checksums cancels out.
  uint32_t shift = kOne;
  for (uint32_t power = kOne >> 8; bytes != 0; bytes >>= 1, power = times(power, power)) {
    if (bytes & 1) shift = times(shift, power);
  }
  return times(shift, first) ^ second;
}

std::string crc_text(uint32_t crc) {
  std::string text(8, '0');
  for (size_t i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[crc >> (28 - 4 * i) & 15];
  return text;
}

std::optional<uint32_t> parse_crc(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 8) return std::nullopt;
  uint32_t crc = 0;
  for (char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    crc = crc << 4 | static_cast<uint32_t>(digit);
  }
  return crc;
}

}  // namespace ct
