// SHA-256 (FIPS 180-4), streaming, and SHA-1 and MD5 for published checksums.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace ct {

class Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  /// The digest as 64 lower-case hexadecimal digits. Ends the stream: may be called once, with no update after it.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

inline std::string sha256_hex(const void* data, size_t bytes) {
  Sha256 hash;
  hash.update(data, bytes);
  return hash.hex();
}

/// SHA-1 as 40 lower-case hexadecimal digits; empty if the system's policy forbids it. It does not protect against
/// forged files.
std::string sha1_hex(std::span<const std::byte> bytes);
/// The same of MD5, as 32 digits.
std::string md5_hex(std::span<const std::byte> bytes);

}  // namespace ct
