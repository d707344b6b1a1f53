// JPEG files by libjpeg-turbo: baseline, extended and progressive; grey, RGB, YCbCr, CMYK and YCCK, the latter two with
// inverted inks, as Adobe writes them and Pillow expects them.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

/// Scans that are read of a progressive picture of that size. A dozen is usual; each costs a pass over all pixels,
/// however few bytes it has, so that a large picture may have fewer.
int most_jpeg_scans(PictureSize size);

/// decode_window(), or all of the picture without a choice.
PicturePart decode_jpeg(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                        const DecodeOptions& options);

}  // namespace ct
