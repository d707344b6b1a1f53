// The views of an image inside a model: the network runs once on all of them, as further images of the batch.
#pragma once

#include <span>
#include <string>

#include "graph/view.h"
#include "onnx/nodes.h"

namespace ct::onnx {

/// u8 images [N][H][W][C] as planar images of every view, [views * N][C][H][W].
std::string all_views(const std::string& images, std::span<const View> views, Nodes& nodes);

/// The mean of logits [views * N][classes] by the views' weights: [N][classes].
std::string weighted_mean(const std::string& logits, std::span<const View> views, int64_t classes, Nodes& nodes);

}  // namespace ct::onnx
