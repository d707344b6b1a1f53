// Which box RandomResizedCrop takes, by torchvision's rule: of pictures, before they become samples
// (pictures/transform.h), and of samples that have their size already (augmentation.cpp).
#pragma once

#include "base/random.h"
#include "data/augmentation.h"
#include "data/pictures/picture.h"

namespace ct {

/// The box in a picture: ten attempts at a share of the area (uniform) and a ratio of width to height (log-uniform),
/// then the largest box in the middle whose ratio is allowed.
Window random_window(const RandomResizedCrop& crop, PictureSize picture, Random& random);

}  // namespace ct
