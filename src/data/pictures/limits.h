// What the decoders of all formats refuse alike.
#pragma once

#include "data/pictures/decode.h"

namespace ct {

inline constexpr const char* kEndsTooEarly = "truncated: the file ends before the picture does";

/// Error(data) for a picture of more pixels than data.max_pixels.
void require_allowed(PictureSize size, const DecodeOptions& options);
/// Our own mistake: a window that is empty, or not in the picture.
void require_inside(const Window& window, PictureSize size);

}  // namespace ct
