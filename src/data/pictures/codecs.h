// The decoders of the formats, and their common checks.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

inline constexpr const char* kEndsTooEarly = "truncated: the file ends before the picture does";

/// Error(data) for a picture with a side of more than kMostSide, or of more pixels than data.max_pixels.
void require_allowed(PictureSize size, const DecodeOptions& options);
/// Error(bug) for a window that is empty or not in the picture.
void require_inside(const Window& window, PictureSize size);

/// decode_window(), or the whole picture if `window` is null, by libjpeg-turbo: baseline, extended and progressive;
/// grey, RGB, YCbCr, CMYK and YCCK, the latter two with inverted inks, as Adobe writes them and Pillow expects them.
PicturePart decode_jpeg(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                        const DecodeOptions& options);

/// The largest number of scans that are read of a progressive picture of that size. A dozen is usual. Each scan costs a
/// pass over all pixels even if it has few bytes, so the limit is lower for large pictures.
int most_jpeg_scans(PictureSize size);

/// The same by libpng, for the full rows of a window. The file is read to its end, so damage is found anywhere.
PicturePart decode_png(std::span<const std::byte> file, const ChooseWindow& window, const DecodeOptions& options);

/// The same for Netpbm's binary colour and grey pictures of 8 or 16 bits.
PicturePart decode_ppm(std::span<const std::byte> file, const ChooseWindow& window, const DecodeOptions& options);

/// The same by libwebp. Error(data) in a build without it.
PicturePart decode_webp(std::span<const std::byte> file, const ChooseWindow& window, const DecodeOptions& options);

/// The libraries with their versions: "libpng 1.6.39"; "none (REASON)" in a build without one.
std::string jpeg_library();
std::string png_library();
std::string webp_library();

}  // namespace ct
