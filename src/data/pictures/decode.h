// Decodes JPEG, PNG, WebP and binary PPM and PGM files. The content determines the format, not the name.
//
// The result is RGB of 8 bits, as from Pillow's convert("RGB"): grey is repeated, CMYK is printed on white, palettes
// are looked up, transparency is dropped, and of 16 bits the high byte is kept. EXIF's orientation is ignored.
//
// A fault is Error(data) without the file's name, which the caller adds: a file that is truncated or does not decode,
// another format, more pixels than allowed. The bytes of the file and the allowed pixels bound the memory; the number
// of pixels is checked before any is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "data/pictures/picture.h"

namespace ct {

inline constexpr int64_t kMaxPixels = 100'000'000;
/// Of width and height: libpng's own limit, for all formats. The longer side of a picture of one row stays an int when
/// its shorter one is resized to the most that data.resize allows.
inline constexpr int kMostSide = 1'000'000;

struct DecodeOptions {
  int64_t max_pixels = kMaxPixels;  // data.max_pixels
};

/// Decodes a whole picture.
Picture decode(std::span<const std::byte> file, const DecodeOptions& options = {});

/// A part of a picture, possibly at a lower resolution than stored.
struct PicturePart {
  Picture picture;
  int x = 0, y = 0;  // its start in the whole picture at that scale
  double scale = 1;  // of the whole picture: a power of two, or a multiple of 1/8
};

/// The size to which a window will be resized, which determines the needed resolution.
struct Wanted {
  PictureSize size = {};
  bool exact = true;  // the window has the pixels of decode(); false: the lowest sufficient resolution
};

/// Chooses a window of a picture whose header has been read; it must lie in the picture.
using ChooseWindow = std::function<Window(PictureSize)>;

/// Decodes little more than a window. Damage elsewhere may remain undetected.
PicturePart decode_window(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                          const DecodeOptions& options = {});

}  // namespace ct
