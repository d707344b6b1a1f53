// JPEG files by libjpeg-turbo: baseline, extended and progressive; grey, RGB, YCbCr, CMYK and YCCK, the latter two with
// inverted inks, as Adobe writes them and Pillow expects them.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

PictureInfo jpeg_info(std::span<const std::byte> file);
/// decode_window(), or all of the picture without a window.
PicturePart decode_jpeg(std::span<const std::byte> file, const Window* window, const Wanted& wanted,
                        const DecodeOptions& options);

}  // namespace ct
