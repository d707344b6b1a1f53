// WebP by libwebp: lossy and lossless, without animations.
#include <webp/decode.h>

#include "base/error.h"
#include "data/pictures/codecs.h"

namespace ct {
namespace {

[[noreturn]] void refuse(VP8StatusCode status) {
  if (status == VP8_STATUS_OUT_OF_MEMORY) fail(ExitCode::memory, "no memory for reading a WebP file");
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) fail(ExitCode::data, kEndsTooEarly);
  fail(ExitCode::data, "a WebP file that cannot be decoded");
}

}  // namespace

PicturePart decode_webp(std::span<const std::byte> file, const ChooseWindow& choose, const DecodeOptions& options) {
  const auto* const data = reinterpret_cast<const uint8_t*>(file.data());
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) fail(ExitCode::bug, "libwebp is of another version than its header");
  if (const VP8StatusCode status = WebPGetFeatures(data, file.size(), &config.input); status != VP8_STATUS_OK)
    refuse(status);
  if (config.input.has_animation != 0)
    fail(ExitCode::data, "an animated WebP file: save the wanted frame as JPEG or PNG");
  const PictureSize size = {config.input.width, config.input.height};
  require_allowed(size, options);
  const Window window = choose ? choose(size) : Window{0, 0, size.width, size.height};
  require_inside(window, size);

  // All of it: libwebp reads every byte anyway, and moves the begin of a window to an even pixel.
  PicturePart result{.picture = Picture(size.width, size.height)};
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {
      .rgba = result.picture.rgb.data(), .stride = 3 * size.width, .size = result.picture.rgb.size()};
  if (const VP8StatusCode status = WebPDecode(data, file.size(), &config); status != VP8_STATUS_OK) refuse(status);
  return result;
}

std::string webp_library() {
  const int version = WebPGetDecoderVersion();  // 0x010204
  return str("libwebp ", version >> 16, ".", version >> 8 & 255, ".", version & 255);
}

}  // namespace ct
