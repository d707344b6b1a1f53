#include "data/pictures/decode.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/pictures/jpeg.h"
#include "data/pictures/png.h"

namespace ct {
namespace {

struct Signature {
  std::string_view bytes, format;
};
constexpr Signature kJpeg = {"\xff\xd8\xff", "JPEG"}, kPng = {"\x89PNG\r\n\x1a\n", "PNG"};
constexpr std::array kOthers = {
    Signature{"GIF8", "GIF"},  Signature{"BM", "BMP"}, Signature{{"II*\0", 4}, "TIFF"}, Signature{{"MM\0*", 4}, "TIFF"},
    Signature{"RIFF", "WebP"}, Signature{"P1", "PNM"}, Signature{"P2", "PNM"},          Signature{"P3", "PNM"},
    Signature{"P4", "PNM"},    Signature{"P5", "PNM"}, Signature{"P6", "PNM"},
};

bool begins_with(std::span<const std::byte> file, const Signature& signature) {
  return file.size() >= signature.bytes.size() &&
         std::equal(signature.bytes.begin(), signature.bytes.end(), file.begin(),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

/// Without a choice all of the picture.
PicturePart decode_part(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                        const DecodeOptions& options) {
  if (begins_with(file, kJpeg)) return decode_jpeg(file, window, wanted, options);
  if (begins_with(file, kPng)) return decode_png(file, window, options);
  if (file.empty()) fail(ExitCode::data, "empty");
  for (const Signature& other : kOthers)
    if (begins_with(file, other)) fail(ExitCode::data, "a ", other.format, " file: convert it to JPEG or PNG");
  fail(ExitCode::data, "neither a JPEG nor a PNG file");
}

}  // namespace

Picture decode(std::span<const std::byte> file, const DecodeOptions& options) {
  return decode_part(file, nullptr, {}, options).picture;
}

PicturePart decode_window(std::span<const std::byte> file, const ChooseWindow& window, const Wanted& wanted,
                          const DecodeOptions& options) {
  return decode_part(file, window, wanted, options);
}

}  // namespace ct
