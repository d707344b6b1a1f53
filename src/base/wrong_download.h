// What often stands in a file's place when it was fetched the wrong way.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// A pointer of Git LFS, or a web page, and what to do: "a web page, not what the page offers: ...". By how the file
/// begins; empty: neither.
std::string_view wrong_download(std::span<const std::byte> file);

/// A file's problem and what to do, which a wrong download says already: "cut short; make it again".
std::string with_remedy(std::string_view problem, std::string_view remedy);

}  // namespace ct
