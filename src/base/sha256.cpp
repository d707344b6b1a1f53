#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"
#include "base/hex.h"

namespace ct {

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

}  // namespace ct
