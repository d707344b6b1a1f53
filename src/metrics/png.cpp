#include "metrics/png.h"

#include <png.h>
#include <zlib.h>

#include "base/error.h"

namespace ct {
namespace {

constexpr size_t kHead = 33;  // the signature and the first chunk, IHDR, which all PNG files begin with

std::string big_endian(uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
  return text;
}

/// The chunk tEXt with the keyword Software (PNG specification, 11.3.4.3).
std::string software_chunk(std::string_view software) {
  std::string text = "tEXtSoftware";
  text += '\0';
  text += software;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  return big_endian(static_cast<uint32_t>(text.size() - 4)) + text + big_endian(static_cast<uint32_t>(crc));
}

}  // namespace

std::string png_of(std::span<const uint8_t> pixels, int64_t width, int64_t channels, std::string_view software) {
  check((channels == 1 || channels == 3) && width > 0 && !pixels.empty() &&
            static_cast<int64_t>(pixels.size()) % (width * channels) == 0,
        pixels.size(), " bytes of pixels, ", width, " in a row, with ", channels, " channels");
  png_image image{.version = PNG_IMAGE_VERSION,
                  .width = static_cast<png_uint_32>(width),
                  .height = static_cast<png_uint_32>(static_cast<int64_t>(pixels.size()) / width / channels),
                  .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
  std::string png(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = png.size();
  check(png_image_write_to_memory(&image, png.data(), &bytes, 0, pixels.data(), 0, nullptr), image.message);
  png.resize(bytes);
  if (!software.empty()) png.insert(kHead, software_chunk(software));
  return png;
}

bool is_png_by(std::string_view png, std::string_view software) {
  const std::string chunk = software_chunk(software);
  return png.size() >= kHead && png.starts_with("\x89PNG\r\n\x1a\n") && png.substr(kHead, chunk.size()) == chunk;
}

}  // namespace ct
