// A micro-batch that the host passes to the device.
#pragma once

#include <cstdint>
#include <span>

#include "graph/dropout_key.h"
#include "graph/edit_draw.h"

namespace ct {

/// The host's buffers for a micro-batch of N images. Buffers that an augmentation or a program does not use are empty.
struct Inputs {
  std::span<uint8_t> images;              // [N][C][H][W]; empty if `index` is not
  std::span<Draw> draws;                  // [N]
  std::span<int32_t> labels;              // [N]
  std::span<EditDraw> edits = {};         // [N][edits of the augmentation]
  std::span<int32_t> second_labels = {};  // [N]; empty: images are not mixed
  std::span<float> second_shares = {};    // like second_labels
  std::span<float> class_weights = {};    // [classes]; empty: classes count alike
  std::span<int32_t> index = {};          // [N], numbers of images in a set that lies in the device's memory
  DropoutKey* dropout_key = nullptr;      // identifies the micro-batch; null in evaluation
};

}  // namespace ct
