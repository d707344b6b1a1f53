#include "data/pictures/decode.h"
#include "target.h"

namespace ct::fuzz::picture {
namespace {

constexpr int64_t kPixels = 1 << 20;

/// The whole, and the part that a random crop would take; the picture's own bytes choose the crop.
void read(Input input) {
  const DecodeOptions options = {.max_pixels = kPixels};
  const uint8_t first = input.empty() ? 0 : std::to_integer<uint8_t>(input.back());
  const auto window = [&](PictureSize size) {
    const int width = 1 + first % size.width, height = 1 + first % size.height;
    return Window{(size.width - width) / 2, size.height - height, width, height};
  };
  decode_window(input, window, {.size = {.width = 32, .height = 32}, .exact = first % 2 == 0}, options);
  decode(input, options);
}

const Registered registered({.name = "picture",
                             .refusals = {ExitCode::data},
                             .read = read,
                             .memory = (uint64_t{64} << 20) + 4 * uint64_t{kPixels}});

}  // namespace
}  // namespace ct::fuzz::picture
