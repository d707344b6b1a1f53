// A build without libwebp.
#include "base/error.h"
#include "data/pictures/codecs.h"

namespace ct {

PicturePart decode_webp(std::span<const std::byte>, const ChooseWindow&, const DecodeOptions&) {
  fail(ExitCode::data, "a WebP file, which this program cannot read, because it was built without libwebp: convert it ",
       "to JPEG or PNG");
}

std::string webp_library() { return "none (built without libwebp)"; }

}  // namespace ct
