// Parameter groups: parameters by name or number of dimensions, whole or their first rows, that are learnt at another
// rate or decay differently.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/choice.h"
#include "base/config_key.h"
#include "graph/graph.h"

namespace ct::optim {

struct ParameterGroup {
  std::string pattern = "*";          // of names: * stands for any characters, ? for one
  std::optional<int64_t> dimensions;  // of PyTorch's shape; absent: any
  std::optional<int64_t> rows;        // the first so many, of a shape's first dimension; absent: all
  double lr_scale = 1;
  std::optional<double> weight_decay;  // absent: the optimizer's
  bool may_be_empty = false;
};

/// The keys of one of optimizer.groups.
std::vector<ConfigKey> keys_of(ParameterGroup& group);

/// optimizer.params.no_decay.
enum class NoDecay : uint8_t { none, vectors };
constexpr auto words_of(NoDecay) { return std::to_array<std::string_view>({"none", "vectors"}); }

/// The group that NoDecay::vectors stands for.
inline const ParameterGroup kVectorsDoNotDecay{.dimensions = 1, .weight_decay = 0, .may_be_empty = true};

struct Treatment {
  double weight_decay = 0;
  float lr_scale = 1;
  bool operator==(const Treatment&) const = default;
};

/// How each parameter is updated: as the first group that matches says, else as the optimizer does; of a running
/// statistic, which is not learnt, nothing.
struct ParameterTreatment : Treatment {
  /// Rows that are updated otherwise, those before `end` and behind the ones before; they come first.
  struct Rows {
    int64_t end;
    Treatment treatment;
    bool operator==(const Rows&) const = default;
  };
  std::vector<Rows> first_rows;
  bool operator==(const ParameterTreatment&) const = default;
};

/// By parameter. Throws Error(usage) for a group that is left without any parameter, or row of one.
std::vector<ParameterTreatment> treatments(const Graph& graph, const std::vector<ParameterGroup>& groups,
                                           double weight_decay);

}  // namespace ct::optim
