#include <algorithm>

#include "plan/lowering/lowering.h"

namespace ct {

/// What layers compute with: whole, or packed shards and, for each unit, room for what is gathered. What is frozen is
/// whole: it needs no traffic.
void Lowering::place_params() {
  const FlatLayout& flat = out_.flat;
  const Distribution& d = out_.distribution;
  frozen_runs_ = intersection(flat.runs, flat.frozen());
  if (zero_.whole_params) {
    out_.params = buffer("params", flat.compute_bytes, MemoryCategory::weights,
                         zero_.gather_after_update ? shared() : MemorySpace::resident);
    for (size_t i = 0; i < flat.parameters.size(); ++i)
      place(graph_.parameters()[i].value, out_.params, byte_of(flat.runs, flat.parameters[i].begin));
    return;
  }
  const std::vector<Run> changing = intersection(flat.runs, {0, flat.changing});
  shard_runs_ = out_.shards.packed(d.rank, changing);
  int64_t largest = 0;  // peers find a shard at the same place everywhere, so all are as long as the longest
  for (int r = 0; r < d.ranks; ++r) largest = std::max(largest, bytes_of(out_.shards.packed(r, changing)));
  int64_t bytes = largest;
  for (Run& run : frozen_runs_) {
    run.byte = round_up(bytes, 64);
    bytes = run.byte + run.range.size() * static_cast<int64_t>(size_of(run.dtype));
    shard_runs_.push_back(run);
  }
  out_.params = buffer("parameter shard", bytes, MemoryCategory::weights, shared());

  unit_place_.resize(flat.units.size());
  int64_t persistent_bytes = 0;
  for (size_t i : by_place()) {
    const Parameter& p = graph_.parameters()[i];
    if (p.frozen) continue;
    const Range padded{flat.parameters[i].begin, round_up(flat.parameters[i].end, kRowPad)};
    const DType dtype = graph_[p.value].dtype;
    const int64_t bytes = padded.size() * static_cast<int64_t>(size_of(dtype));
    const bool whole = p.is_vector() && p.layout.numel() <= d.zero.persistence_threshold;
    std::vector<Run>& runs = whole ? persistent_ : unit_place_[static_cast<size_t>(p.unit)];
    const int64_t byte = round_up(whole ? persistent_bytes : bytes_of(runs), 64);
    runs.push_back({padded, dtype, byte});
    if (whole) persistent_bytes = byte + bytes;
  }
  if (!persistent_.empty())
    persistent_value_ = buffer("persistent parameters", persistent_bytes, MemoryCategory::weights);
  for (size_t u = 0; u < unit_place_.size(); ++u)
    unit_value_.push_back(unit_place_[u].empty() ? kNone
                                                 : buffer("gathered " + graph_.units()[u], bytes_of(unit_place_[u]),
                                                          MemoryCategory::weights, MemorySpace::transient));
  for (size_t i = 0; i < flat.parameters.size(); ++i) {
    const Parameter& p = graph_.parameters()[i];
    const int64_t begin = flat.parameters[i].begin;
    if (p.frozen) {
      place(p.value, out_.params, byte_of(frozen_runs_, begin));
      continue;
    }
    const auto unit = static_cast<size_t>(p.unit);
    const bool whole = intersection(persistent_, {begin, begin + 1}).size() == 1;
    place(p.value, whole ? persistent_value_ : unit_value_[unit],
          byte_of(whole ? persistent_ : unit_place_[unit], begin));
  }
}

std::vector<size_t> Lowering::by_place() const {
  std::vector<size_t> order(out_.flat.parameters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return out_.flat.parameters[i].begin; });
  return order;
}

/// f32 masters: the params themselves where layers compute in f32.
void Lowering::place_masters() {
  if (!separate_masters_)
    out_.states.push_back(
        {StateKind::weights, "weights", out_.params, zero_.whole_params ? out_.flat.runs : shard_runs_});
  else
    out_.states.push_back(state(StateKind::weights, "weights"));
}

/// Frozen weights in compute type, whole on every rank, from the masters, of which a rank holds its share.
void Lowering::refresh_frozen() {
  if (!separate_masters_ || frozen_runs_.empty()) return;
  const HeldState& masters = out_.states.front();
  for (const Run& held : masters.held)
    for (const Run& run : intersection(frozen_runs_, held.range))
      for (const Run& part : offload_parts(run))
        emit(out_.refresh, Cast{view(masters.value, byte_of(masters.held, part.range.begin), part.range.size()),
                                view(out_.params, part.byte, part.range.size(), part.dtype)});
  if (!zero_.whole_states)
    communicate(out_.refresh, AllGather{out_.params, out_.params, frozen_runs_, AllGather::What::params});
}

/// Shared out as the stage shares out the optimizer's state.
HeldState Lowering::state(StateKind kind, const std::string& name, Scope scope) {
  std::vector<Run> held = zero_.whole_states ? whole_ : packed_;
  if (kind == StateKind::weights) {
    const std::vector<Run> all{{{0, out_.flat.numel}, DType::f32, 0}};
    held = zero_.whole_states ? all : out_.shards.packed(out_.distribution.rank, all);
  }
  if (scope == Scope::matrices || scope == Scope::others)
    held = zero_.whole_states ? Shards(out_.flat, 1).packed(0, runs_of(scope))
                              : out_.shards.packed(out_.distribution.rank, runs_of(scope));
  const MemorySpace space = out_.distribution.zero.offload_optimizer ? MemorySpace::host : MemorySpace::resident;
  return {kind, name, floats(name, bytes_of(held) / kFloat, MemoryCategory::optimizer, space), held, scope};
}

/// The parameters of a scope in the flat order, with the pads behind them.
std::vector<Run> Lowering::runs_of(Scope scope) const {
  std::vector<Run> runs;
  for (const size_t i : by_place()) {
    if (!is_in(scope, graph_.parameters()[i])) continue;
    const Range& p = out_.flat.parameters[i];
    const Range padded{p.begin, round_up(p.end, kRowPad)};
    if (!runs.empty() && runs.back().range.end == padded.begin)
      runs.back().range.end = padded.end;
    else
      runs.push_back({padded, DType::f32, 0});
  }
  return runs;
}

}  // namespace ct
