// PNG files by libpng.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

PictureInfo png_info(std::span<const std::byte> file);
/// The rows of a window in their full width, or all of the picture without a window. The file is read to its end, so
/// that damage shows wherever it lies.
PicturePart decode_png(std::span<const std::byte> file, const Window* window, const DecodeOptions& options);

}  // namespace ct
