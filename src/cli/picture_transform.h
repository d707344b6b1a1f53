// How a picture becomes the input of a trained network.
#pragma once

#include <string>

#include "data/pictures/transform.h"
#include "train/weights.h"

namespace ct {

/// The evaluation's transform of the run. Sets whose images have one size need none: larger pictures are resized to it.
/// Error(checkpoint), which names the file `checkpoint`, if no picture becomes the network's input.
PictureTransform transform_of(const WeightsInfo& info, const std::string& checkpoint);

}  // namespace ct
