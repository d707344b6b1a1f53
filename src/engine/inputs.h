// A micro-batch as the host hands it to the device.
#pragma once

#include <cstdint>
#include <span>

#include "graph/dropout_key.h"
#include "graph/edit_draw.h"

namespace ct {

/// Where the host writes a micro-batch of N images. What an augmentation or a program has no use for is empty.
struct Inputs {
  std::span<uint8_t> images;              // [N][C][H][W]
  std::span<Draw> draws;                  // [N]
  std::span<int32_t> labels;              // [N]
  std::span<EditDraw> edits = {};         // [N][edits of the augmentation]
  std::span<int32_t> second_labels = {};  // [N]; empty: images are not mixed
  std::span<float> second_shares = {};    // like second_labels
  DropoutKey* dropout_key = nullptr;      // which micro-batch it is; evaluation does not ask
};

}  // namespace ct
