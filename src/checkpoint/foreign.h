// Files of other formats that are given where safetensors are expected.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ct {

/// What a file is that is no safetensors, and how to come by one: "a gzip archive: unpack it first". By how it begins;
/// empty if that is of no format known here.
std::string_view foreign_format(std::span<const std::byte> file);

}  // namespace ct
