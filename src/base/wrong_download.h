// Recognises files that result from wrong downloads.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// A description of a Git LFS pointer or a web page, with the remedy: "a web page, not what the page offers: ...".
/// Determined from the first bytes of the file; empty: neither.
std::string_view wrong_download(std::span<const std::byte> file);

/// A file's problem and the remedy, "truncated; make it again". A problem that ends with a remedy, as the description
/// of a wrong download does, is unchanged.
std::string with_remedy(std::string_view problem, std::string_view remedy);

}  // namespace ct
