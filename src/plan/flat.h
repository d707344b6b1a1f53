// The flat order: every parameter has a fixed place in one range, unit by unit; within a unit weights (rank >= 2), then
// vectors, then running statistics. Gradients, optimizer state and shards use the same places, so updates, sums over
// ranks and shards are ranges for every model. What is frozen comes last, behind all units, so that they end before it.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "optim/parameter_groups.h"

namespace ct {

inline constexpr int64_t kChunk = 4096;

struct FlatLayout {
  std::vector<Range> parameters;  // by parameter index: its storage; begins are multiples of kRowPad
  std::vector<Range> units;       // what of them changes in training
  /// The pieces of which shards consist: whole rows (dimension 0) of one parameter, about kChunk elements.
  std::vector<Range> grains;
  /// The terms of norms: pieces of at most kChunk elements, cut inside the grains of parameters that learn, so that
  /// neither padding nor the number of ranks moves a boundary of a sum.
  std::vector<Range> chunks;
  /// The layout that layers read: weights in the compute type, vectors in f32.
  std::vector<Run> runs;
  int64_t numel = 0;
  int64_t changing = 0;  // elements that training changes: all before the frozen ones
  Range frozen() const { return {changing, numel}; }
  int64_t compute_bytes = 0;
};

FlatLayout flatten_parameters(const Graph& graph);

/// A maximal range of the flat order with one update rule.
struct UpdateRange {
  Range range;
  optim::Treatment treatment = {};
  bool statistic = false;
  double momentum = 0;  // of a statistic
  int64_t tensor = -1;  // the parameter's index with Tensors::apart, else (and for a statistic) -1
};
enum class Tensors : uint8_t { together, apart };
/// `treatments`: by parameter. Adjacent parameters with the same treatment form one range, except with Tensors::apart.
std::vector<UpdateRange> update_ranges(const Graph& graph, const FlatLayout& flat,
                                       const std::vector<optim::ParameterTreatment>& treatments,
                                       Tensors tensors = Tensors::together);
/// The chunks of each parameter, as a range of chunk numbers; empty for a statistic.
std::vector<Range> chunks_of_parameters(const FlatLayout& flat);

/// The parts of `runs` inside `range`, with their bytes.
std::vector<Run> intersection(const std::vector<Run>& runs, const Range& range);
/// The byte of one element, which must be in a run.
int64_t byte_of(const std::vector<Run>& runs, int64_t element);

}  // namespace ct
