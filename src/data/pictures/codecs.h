// The decoders of JPEG and PNG files, and what they refuse alike.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

inline constexpr const char* kEndsTooEarly = "truncated: the file ends before the picture does";

/// Error(data) for a picture of more pixels than data.max_pixels.
void require_allowed(PictureSize size, const DecodeOptions& options);
/// Our own mistake: a window that is empty, or not in the picture.
void require_inside(const Window& window, PictureSize size);

/// decode_window(), or all of the picture without a choice, by libjpeg-turbo: baseline, extended and progressive; grey,
/// RGB, YCbCr, CMYK and YCCK, the latter two with inverted inks, as Adobe writes them and Pillow expects them.
PicturePart decode_jpeg(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                        const DecodeOptions& options);

/// Scans that are read of a progressive picture of that size. A dozen is usual; each costs a pass over all pixels,
/// however few bytes it has, so that a large picture may have fewer.
int most_jpeg_scans(PictureSize size);

/// The same by libpng, of the rows of a window in their full width. The file is read to its end, so that damage shows
/// wherever it lies.
PicturePart decode_png(std::span<const std::byte> file, const ChooseWindow& window, const DecodeOptions& options);

}  // namespace ct
