// Parameter groups: parameters with their own rate or weight decay, selected by name or number of dimensions; a group
// may select only their first rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/choice.h"
#include "base/config_key.h"
#include "graph/graph.h"

namespace ct::optim {

/// Does a name match a pattern? `*` matches any characters, `?` matches one, and `[a-cx]` one of a, b, c and x; a `[`
/// without a `]` matches itself.
bool matches(std::string_view pattern, std::string_view name);

struct ParameterGroup {
  std::string pattern = "*";          // of names, see matches()
  std::optional<int64_t> dimensions;  // of PyTorch's shape; absent: any number
  std::optional<int64_t> rows;        // the first `rows` along the first dimension; absent: all
  double lr_scale = 1;
  std::optional<double> weight_decay;  // absent: the optimizer's
  bool may_be_empty = false;
};

/// The keys of one of optimizer.groups.
std::vector<ConfigKey> keys_of(ParameterGroup& group);

/// optimizer.params.no_decay.
enum class NoDecay : uint8_t { none, vectors };
constexpr auto words_of(NoDecay) { return std::to_array<std::string_view>({"none", "vectors"}); }

/// The group of NoDecay::vectors.
inline const ParameterGroup kVectorsDoNotDecay{.dimensions = 1, .weight_decay = 0, .may_be_empty = true};

struct Treatment {
  double weight_decay = 0;
  float lr_scale = 1;
  bool operator==(const Treatment&) const = default;
};

/// A parameter's update: that of the first matching group, else the optimizer's. A running statistic is not updated by
/// the optimizer.
struct ParameterTreatment : Treatment {
  /// Leading rows with another treatment: from the previous entry's `end` (at first 0) to `end`.
  struct Rows {
    int64_t end;
    Treatment treatment;
    bool operator==(const Rows&) const = default;
  };
  std::vector<Rows> first_rows;
  bool operator==(const ParameterTreatment&) const = default;
};

/// One entry for each parameter. The layers of the graph are its units (Graph::begin_unit), and the rate of each is
/// that of the next one times `layer_decay`. Throws Error(usage) for a group to which no parameter and no row belongs.
std::vector<ParameterTreatment> treatments(const Graph& graph, const std::vector<ParameterGroup>& groups,
                                           double weight_decay, double layer_decay = 1);

}  // namespace ct::optim
