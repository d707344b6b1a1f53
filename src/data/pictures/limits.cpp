#include "data/pictures/limits.h"

#include "base/error.h"

namespace ct {

void require_allowed(PictureSize size, const DecodeOptions& options) {
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

}  // namespace ct
