#include "fetch/address.h"

#include <string_view>

namespace ct {

std::string without_password(std::string text) {
  const size_t at = text.rfind('@');
  if (at == text.npos) return text;
  constexpr std::string_view kSlashes = "://";
  const size_t slashes = text.find(kSlashes), quote = text.find_first_of("'\"");
  // Without a scheme the address may be the quoted part of a sentence.
  const size_t begin = slashes < at ? slashes + kSlashes.size() : quote < at ? quote + 1 : 0;
  return text.replace(begin, at - begin, "...");
}

}  // namespace ct
