// Pictures as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ct {

/// Pixels [height][width][channels], grey (1 channel) or RGB (3), as a PNG file. `software` is named in it as its
/// writer; empty: nobody is. The same pixels give the same bytes.
std::string png_of(std::span<const uint8_t> pixels, int64_t width, int64_t channels, std::string_view software = "");

/// Does a PNG file, which may be damaged behind its beginning, name `software` as its writer, as png_of() does?
bool is_png_by(std::string_view png, std::string_view software);

}  // namespace ct
