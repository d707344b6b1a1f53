#include "model/feed_forward.h"

#include "base/error.h"

namespace ct {
namespace {

FffTrees trees_of(const FeedForwardKeys::Fff& keys) {
  return {static_cast<int>(keys.trees), static_cast<int>(keys.depth), static_cast<int>(keys.fanout)};
}

}  // namespace

std::vector<ConfigKey> FeedForwardKeys::keys() {
  return {
      {"ffn", &ffn, "feed-forward layers: mlp (two linear layers) | fff (fast: a path through a tree)"},
      {"ffn_pairs", &ffn_pairs, "also a feed-forward layer before attention"},
      {"fff_depth", &fff.depth, "levels of a tree below its root", {.min = 0, .max = 13}},
      {"fff_fanout", &fff.fanout, "children of a tree's node", {.min = 2, .max = 64}},
      {"fff_trees", &fff.trees, "number of trees", {.min = 1, .max = 64}},
      {"fff_dense", &fff.dense, "units that every token visits, in addition to the trees", {.min = 0, .max = 4096}}};
}

std::optional<ConfigFault> FeedForwardKeys::fault() const {
  if (ffn == FeedForward::mlp) {
    const Fff absent;
    const char* const given = fff.depth != absent.depth     ? "fff_depth"
                              : fff.fanout != absent.fanout ? "fff_fanout"
                              : fff.trees != absent.trees   ? "fff_trees"
                              : fff.dense != absent.dense   ? "fff_dense"
                                                            : nullptr;
    if (given == nullptr) return {};
    return ConfigFault{given,
                       "is a key of model.ffn: fff, and model.ffn is mlp: set model.ffn to fff, or leave this key out"};
  }
  double units = 0, level = static_cast<double>(fff.trees * trees_of(fff).group());
  for (int64_t d = 0; d <= fff.depth; ++d, level *= static_cast<double>(fff.fanout)) units += level;
  if (units > kMostFffUnits)
    return ConfigFault{"fff_depth", str("makes more than ", kMostFffUnits,
                                        " units with this fan-out and number of trees; use a smaller depth")};
  if (const int64_t visited = trees_of(fff).visited(); visited > kMostFffVisited)
    return ConfigFault{"fff_trees", str("makes a token visit ", visited, " units, with the depth and the fan-out that ",
                                        "there are, and ", kMostFffVisited, " is the limit; use a smaller one")};
  return {};
}

ValueId fast_feed_forward(Graph& g, ValueId x, const std::string& name, int64_t dim, const FeedForwardKeys& keys) {
  const ValueId y = g.fast_feed_forward(x, name, dim, trees_of(keys.fff));
  if (keys.fff.dense == 0) return y;
  const ValueId h = g.linear(x, name + ".dense_in", keys.fff.dense, {.bias = false, .activation = Activation::gelu});
  return g.add(y, g.linear(h, name + ".dense_out", dim, {.bias = false}));
}

}  // namespace ct
