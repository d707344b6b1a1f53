// The flat order: every parameter at a fixed place in one long range, unit by unit; in a unit weights (rank >= 2), then
// vectors, then running statistics. Gradients, optimizer state and shards use the same places, so an update, a sum over
// ranks or what a rank owns is a range, whatever the model.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "optim/parameter_groups.h"

namespace ct {

inline constexpr int64_t kChunk = 4096;

struct FlatLayout {
  std::vector<Range> parameters;  // by parameter index: its storage; begins are multiples of kRowPad
  std::vector<Range> units;
  /// What ranks own is made of these: whole rows (dimension 0) of one parameter, about kChunk elements.
  std::vector<Range> grains;
  /// Pieces of at most kChunk elements cut inside the grains of parameters (not of statistics): the terms of norms, so
  /// that neither padding nor the number of ranks moves a boundary of a sum.
  std::vector<Range> chunks;
  /// The form that layers compute with: weights in the compute type, vectors in f32.
  std::vector<Run> runs;
  int64_t numel = 0;
  int64_t compute_bytes = 0;
};

FlatLayout flatten_parameters(const Graph& graph);

/// Maximal ranges of the flat order that are updated alike.
struct UpdateRange {
  Range range;
  optim::Treatment treatment = {};
  bool statistic = false;
  double momentum = 0;  // of a statistic
  int64_t tensor = -1;  // the parameter, where each is by itself
};
enum class Tensors : uint8_t { together, apart };
/// `treatments`: by parameter. Parameters that are treated alike are one range, unless they are to be apart.
std::vector<UpdateRange> update_ranges(const Graph& graph, const FlatLayout& flat,
                                       const std::vector<optim::ParameterTreatment>& treatments,
                                       Tensors tensors = Tensors::together);
/// The chunks of each parameter, as a range of their numbers; none of a statistic.
std::vector<Range> chunks_of_parameters(const FlatLayout& flat);

/// The parts of `runs` that lie in `range`, at their bytes.
std::vector<Run> intersection(const std::vector<Run>& runs, const Range& range);
/// The byte of one element; it must be in a run.
int64_t byte_of(const std::vector<Run>& runs, int64_t element);

}  // namespace ct
