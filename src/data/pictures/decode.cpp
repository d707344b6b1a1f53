#include "data/pictures/decode.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/error.h"
#include "base/wrong_download.h"
#include "data/pictures/codecs.h"

namespace ct {
namespace {

struct Signature {
  std::string_view bytes, format;
  size_t at = 0;  // where they lie in the file
};
constexpr Signature kJpeg = {"\xff\xd8\xff", "a JPEG"}, kPng = {"\x89PNG\r\n\x1a\n", "a PNG"},
                    kRiff = {"RIFF", "a RIFF"}, kWebp = {"WEBP", "a WebP", 8}, kPpm = {"P6", "a PPM"},
                    kPgm = {"P5", "a PGM"};
constexpr Signature kOthers[] = {
    {"GIF8", "a GIF"},
    {"BM", "a BMP"},
    {{"II*\0", 4}, "a TIFF"},
    {{"MM\0*", 4}, "a TIFF"},
    {"P1", "a PNM"},
    {"P2", "a PNM"},
    {"P3", "a PNM"},
    {"P4", "a PNM"},
    {"ftypavif", "an AVIF", 4},
    {"ftypavis", "an AVIF", 4},
    {"ftyphei", "a HEIC", 4},
    {"ftyphev", "a HEIC", 4},
    {"ftypmif1", "a HEIF", 4},
    {"ftypmsf1", "a HEIF", 4},
    {"jP  \r\n\x87\n", "a JPEG 2000", 4},
    {"\xff\x4f\xff\x51", "a JPEG 2000"},
    {"JXL \r\n\x87\n", "a JPEG XL", 4},
    {"\xff\x0a", "a JPEG XL"},
    {"<svg", "an SVG"},
    {"8BPS", "a Photoshop"},
    {"%PDF", "a PDF"},
};

bool begins_with(std::span<const std::byte> file, const Signature& signature) {
  const std::string_view& bytes = signature.bytes;
  return file.size() >= signature.at + bytes.size() &&
         std::equal(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(signature.at),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

/// Without a choice all of the picture.
PicturePart decode_part(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                        const DecodeOptions& options) {
  if (begins_with(file, kJpeg)) return decode_jpeg(file, window, wanted, options);
  if (begins_with(file, kPng)) return decode_png(file, window, options);
  if (begins_with(file, kPpm) || begins_with(file, kPgm)) return decode_ppm(file, window, options);
  if (begins_with(file, kRiff) && begins_with(file, kWebp)) return decode_webp(file, window, options);
  if (file.empty()) fail(ExitCode::data, "empty");
  for (const Signature& other : kOthers)
    if (begins_with(file, other)) fail(ExitCode::data, other.format, " file: convert it to JPEG or PNG");
  if (const std::string_view wrong = wrong_download(file); !wrong.empty()) fail(ExitCode::data, wrong);
  fail(ExitCode::data, "not a JPEG, PNG, WebP or PPM file");
}

}  // namespace

void require_allowed(PictureSize size, const DecodeOptions& options) {
  if (const int longer = std::max(size.width, size.height); longer > kMostSide)
    fail(ExitCode::data, size.width, "x", size.height, ": ", longer, " pixels are more than a side may have, ",
         kMostSide, ": cut it");
  if (const int64_t pixels = int64_t{size.width} * size.height; pixels > options.max_pixels)
    fail(ExitCode::data, size.width, "x", size.height, ": ", pixels, " pixels are more than data.max_pixels, ",
         options.max_pixels, ", which may be raised (data verify, data convert: --max-pixels)");
}

void require_inside(const Window& window, PictureSize size) {
  check(window.x >= 0 && window.y >= 0 && window.width > 0 && window.height > 0 &&
            window.width <= size.width - window.x && window.height <= size.height - window.y,
        "no window of ", window.width, "x", window.height, " at ", window.x, ",", window.y, " in a picture of ",
        size.width, "x", size.height);
}

Picture decode(std::span<const std::byte> file, const DecodeOptions& options) {
  return decode_part(file, nullptr, {}, options).picture;
}

PicturePart decode_window(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                          const DecodeOptions& options) {
  return decode_part(file, window, wanted, options);
}

}  // namespace ct
