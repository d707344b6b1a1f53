#include "base/sha1.h"

#include <openssl/evp.h>

#include "base/hex.h"

namespace ct {

std::string sha1_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha1(), nullptr) != 1) return "";
  return hex_text({digest, size});
}

}  // namespace ct
