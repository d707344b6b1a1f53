#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/error.h"

namespace ct {
namespace {

std::string hex_text(std::span<const unsigned char> bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

std::string digest_hex(std::span<const std::byte> bytes, const EVP_MD* kind) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, kind, nullptr) != 1) return "";
  return hex_text({digest, size});
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is not available");
}

void Sha256::update(const void* data, size_t bytes) {
  check(context_ && EVP_DigestUpdate(context_.get(), data, bytes) == 1, "SHA-256 updated after its end");
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  check(context_ && EVP_DigestFinal_ex(context_.get(), digest, &size) == 1, "SHA-256 ended twice");
  context_.reset();
  return hex_text({digest, size});
}

std::string sha1_hex(std::span<const std::byte> bytes) { return digest_hex(bytes, EVP_sha1()); }
std::string md5_hex(std::span<const std::byte> bytes) { return digest_hex(bytes, EVP_md5()); }

}  // namespace ct
