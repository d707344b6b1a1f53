// Images to what the first layer reads.
#include "base/error.h"
#include "onnx/fields.h"
#include "onnx/operations.h"

namespace ct::onnx {

void convert(const Augment& op, Nodes& nodes) {
  check(op.index == kNone, "an evaluation of images in the device's memory");
  const auto channels = static_cast<int64_t>(op.scale.size());
  const std::string pixels = nodes.add("Cast", {nodes[op.images]}, {{"to", int64_t{tensor_proto::kFloat}}});
  const std::string scale = nodes.floats("scale", {channels, 1, 1}, op.scale);
  const std::string shift = nodes.floats("shift", {channels, 1, 1}, op.shift);
  nodes.set(op.out, nodes.add("Add", {nodes.add("Mul", {pixels, scale}), shift}));
}

/// A negative pad removes pixels.
std::string moved(const std::string& x, int64_t dy, int64_t dx, Nodes& nodes) {
  return nodes.add("Pad", {x, nodes.list("pads", {0, 0, -dy, -dx, 0, 0, dy, dx})});
}

void convert(const Patches& op, Nodes& nodes) {
  std::string images = nodes[op.images];
  const Shape& shape = nodes.shape(op.images);
  int64_t channels = shape[1];
  if (const int64_t s = op.shift; s > 0) {
    const std::vector<std::string> copies = {images, moved(images, 0, -s, nodes), moved(images, 0, s, nodes),
                                             moved(images, -s, 0, nodes), moved(images, s, 0, nodes)};
    images = nodes.add("Concat", copies, {{"axis", int64_t{1}}});
    channels *= std::ssize(copies);
  }
  const int64_t patch = op.patch, rows = shape[2] / patch, columns = shape[3] / patch;
  const std::string grid =
      nodes.add("Reshape", {images, nodes.list("grid", {0, channels, rows, patch, columns, patch})});
  // [N][c][rows][y][columns][x] -> [N][rows][columns][y][x][c]
  const std::string apart = nodes.add("Transpose", {grid}, {{"perm", std::vector<int64_t>{0, 2, 4, 3, 5, 1}}});
  nodes.set(op.y, nodes.add("Reshape", {apart, nodes.list("tokens", {0, rows * columns, channels * patch * patch})}));
}

}  // namespace ct::onnx
