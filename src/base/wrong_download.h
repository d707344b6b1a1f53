// What often stands in a file's place when it was fetched the wrong way.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ct {

/// A pointer of Git LFS, or a web page, and what to do: "a web page, not what the page offers: ...". By how the file
/// begins; empty: neither.
std::string_view wrong_download(std::span<const std::byte> file);

}  // namespace ct
