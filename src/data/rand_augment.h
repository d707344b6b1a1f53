// RandAugment's operations, as torchvision's RandAugment has them: identity, shear and translation along both axes,
// rotation, brightness, colour, contrast, sharpness, posterize, solarize, autocontrast, equalize. Nearest-neighbour
// sampling; black outside the image.
#pragma once

#include "graph/edit_draw.h"

namespace ct {

inline constexpr int kRandAugmentOperations = 14;

/// Operation number `which`, in the order above, for images of that size. `strength` is magnitude / (bins - 1), in
/// 0..1; operations with two directions use `negative`.
EditDraw rand_augment_edit(int which, double strength, bool negative, int height, int width);

}  // namespace ct
