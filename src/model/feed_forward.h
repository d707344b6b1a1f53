// The feed-forward layers of vision transformers that a configuration may select instead of the usual two linear
// layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/choice.h"
#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

/// mlp: two linear layers; fff: a fast feedforward layer (Belcak & Wattenhofer, 2023), whose units form trees; a token
/// visits one path of each tree.
enum class FeedForward : uint8_t { mlp, fff };
constexpr auto words_of(FeedForward) { return std::to_array<std::string_view>({"mlp", "fff"}); }

/// The keys of feed-forward layers.
struct FeedForwardKeys {
  FeedForward ffn = FeedForward::mlp;
  bool ffn_pairs = false;
  struct Fff {
    int64_t depth = 7, fanout = 2, trees = 1, dense = 0;
    bool operator==(const Fff&) const = default;
  };
  Fff fff;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
};

/// A fast feedforward layer from and to `dim`, with the names `linear_in` and `linear_out`; with `dense` units also a
/// small dense layer, `dense_in` and `dense_out`, which every token visits.
ValueId fast_feed_forward(Graph& g, ValueId x, const std::string& name, int64_t dim, const FeedForwardKeys& keys);

}  // namespace ct
