// JPEG and PNG files into pictures, whatever their names say: the content tells the format.
//
// Everything becomes RGB of 8 bits as Pillow's convert("RGB") makes it: grey is repeated, CMYK is printed on white,
// palettes are looked up, transparency is dropped; of 16 bits the high byte is kept. EXIF's orientation is not heeded.
//
// What is wrong is Error(data) without the file's name, which the caller knows: a file that ends too early or does not
// decode, another format, more pixels than allowed. Memory is bounded by the file's bytes and the pixels allowed, and
// the latter are compared before any are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "data/pictures/picture.h"

namespace ct {

inline constexpr int64_t kMaxPixels = 100'000'000;

struct DecodeOptions {
  int64_t max_pixels = kMaxPixels;  // data.max_pixels
};

/// All of it.
Picture decode(std::span<const std::byte> file, const DecodeOptions& options = {});

/// A part of a picture, perhaps smaller than it was stored.
struct PicturePart {
  Picture picture;
  int x = 0, y = 0;  // where it begins in the whole picture of that scale
  double scale = 1;  // of the whole picture: a power of two, or an eighth's multiple
};

/// How large a window will be when it is resized, which says what resolution it needs.
struct Wanted {
  PictureSize size = {};
  bool exact = true;  // the window's pixels are those of decode(); false: at a fraction of the resolution that suffices
};

/// Chooses a window of a picture whose header has been read; it must lie in the picture.
using ChooseWindow = std::function<Window(PictureSize)>;

/// Decodes a window and little else. Damage elsewhere may go unseen.
PicturePart decode_window(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                          const DecodeOptions& options = {});

}  // namespace ct
