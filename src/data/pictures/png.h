// PNG files by libpng.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

/// The rows of a window in their full width, or all of the picture without a choice. The file is read to its end, so
/// that damage shows wherever it lies.
PicturePart decode_png(std::span<const std::byte> file, const ChooseWindow& window, const DecodeOptions& options);

}  // namespace ct
