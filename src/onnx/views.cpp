#include "onnx/views.h"

#include <limits>

#include "onnx/operations.h"

namespace ct::onnx {
namespace {

std::string mirrored(const std::string& x, Nodes& nodes) {
  constexpr int64_t kBehindTheFirst = std::numeric_limits<int64_t>::min();
  return nodes.add("Slice", {x, nodes.list("last", {-1}), nodes.list("first", {kBehindTheFirst}),
                             nodes.list("width_axis", {3}), nodes.list("backwards", {-1})});
}

std::string view_of(const std::string& x, const Draw& draw, Nodes& nodes) {
  const std::string at = draw.dy != 0 || draw.dx != 0 ? moved(x, draw.dy, draw.dx, nodes) : x;
  return draw.flip != 0 ? mirrored(at, nodes) : at;
}

}  // namespace

std::string all_views(const std::string& images, std::span<const View> views, Nodes& nodes) {
  const std::string planar = nodes.add("Transpose", {images}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  if (views.size() == 1) return view_of(planar, views.front().draw, nodes);
  std::vector<std::string> all;
  for (const View& view : views) all.push_back(view_of(planar, view.draw, nodes));
  return nodes.add("Concat", all, {{"axis", int64_t{0}}});
}

std::string weighted_mean(const std::string& logits, std::span<const View> views, int64_t classes, Nodes& nodes) {
  if (views.size() == 1) return logits;
  const auto count = std::ssize(views);
  std::vector<float> weights;
  for (const View& view : views) weights.push_back(view.weight);
  const std::string apart = nodes.add("Reshape", {logits, nodes.list("by_view", {count, -1, classes})});
  const std::string weighted = nodes.add("Mul", {apart, nodes.floats("view_weights", {count, 1, 1}, weights)});
  return nodes.add("ReduceSum", {weighted, nodes.list("view_axis", {0})}, {{"keepdims", int64_t{0}}});
}

}  // namespace ct::onnx
