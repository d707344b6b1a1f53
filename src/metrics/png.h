// Pictures as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// Pixels [height][width][channels], grey (1 channel) or RGB (3), as a PNG file. `software` is stored as its writer;
/// empty: no writer. The same pixels give the same bytes.
std::string png_of(std::span<const uint8_t> pixels, int64_t width, int64_t channels, std::string_view software = "");

/// Does a PNG file, which may be damaged after its beginning, have `software` as its writer, as png_of() stores it?
bool is_png_by(std::string_view png, std::string_view software);

}  // namespace ct
