// Norms of whole tensors, from sums by chunk that ranks gather and add in one order, and the ratios of trust that LARS
// and LAMB make of them.
#include <algorithm>

#include "plan/lowering/lowering.h"

namespace ct {

/// A place for a sum of every chunk.
ValueId Lowering::chunk_sums(const std::string& name) {
  return add({.name = name,
              .shape = {static_cast<int64_t>(out_.flat.chunks.size())},
              .dtype = DType::f64,
              .space = zero_.whole_states ? MemorySpace::resident : shared(),
              .category = MemoryCategory::other});
}

/// The chunks that this rank adds up, where `place` says that their first element lies, in elements.
std::vector<SquareSums::Chunk> Lowering::own_chunks(const std::function<int64_t(int64_t)>& place) const {
  const auto& chunks = out_.flat.chunks;
  std::vector<SquareSums::Chunk> mine;
  for (size_t i = 0; i < chunks.size(); ++i)
    for (const Range& own :
         zero_.whole_states ? std::vector<Range>{chunks[i]} : out_.shards.owned(out_.distribution.rank, chunks[i])) {
      const int64_t at = place(own.begin);
      mine.push_back({{at, at + own.size()}, static_cast<int64_t>(i)});
    }
  return mine;
}

/// The number of the communication that brings the sums of other ranks; -1: there are none.
int Lowering::gather_chunks(ValueId sums) {
  if (zero_.whole_states) return -1;
  const auto count = static_cast<int64_t>(out_.flat.chunks.size());
  communicate(out_.update, AllGather{sums, sums, {{{0, count}, DType::f64, 0}}, AllGather::What::chunk_sums});
  return queue_ - 1;
}

std::vector<Lowering::Part> Lowering::own_parts() const {
  const Distribution& d = out_.distribution;
  std::vector<Part> parts;
  for (const UpdateRange& rule : rules_) {
    if (rule.statistic) continue;
    if (zero_.whole_states) {
      parts.push_back({rule.range, rule});
      continue;
    }
    for (const Range& own : out_.shards.owned(d.rank, rule.range)) parts.push_back({own, rule});
  }
  return parts;
}

std::vector<TrustRatios::Tensor> Lowering::tensors(const Treatments& treatments) const {
  const std::vector<Range> chunks = chunks_of_parameters(out_.flat);
  std::vector<TrustRatios::Tensor> all;
  for (size_t i = 0; i < chunks.size(); ++i)
    all.push_back({.chunks = chunks[i],
                   .weight_decay = treatments[i].weight_decay,
                   .lr_scale = treatments[i].lr_scale,
                   .adapts = graph_.parameters()[i].learns()});
  return all;
}

ValueId Lowering::ratios() {
  return add({.name = "trust ratios",
              .shape = {static_cast<int64_t>(graph_.parameters().size())},
              .space = MemorySpace::resident,
              .category = MemoryCategory::other});
}

ValueId Lowering::add_ratios(const optim::Lars& lars, const Treatments& treatments, const States&) {
  const HeldState masters = out_.states.front();
  const ValueId weight_sums = chunk_sums("chunk square sums of weights"), all = ratios();
  emit(out_.update, SquareSums{masters.value, weight_sums,
                               own_chunks([&](int64_t element) { return byte_of(masters.held, element) / kFloat; })});
  const int after = gather_chunks(weight_sums);
  emit(out_.update, lars.trust(tensors(treatments), out_.scalars, weight_sums, gradient_sums_, all), after);
  return all;
}

ValueId Lowering::add_ratios(const optim::Lamb& lamb, const Treatments& treatments, const States& states) {
  const HeldState masters = out_.states.front();
  const ValueId all = ratios();
  LambMoments moments{.scalars = out_.scalars,
                      .weight_sums = chunk_sums("chunk square sums of weights"),
                      .update_sums = chunk_sums("chunk square sums of updates"),
                      .eps = lamb.eps};
  const std::vector<Range> chunks = chunks_of_parameters(out_.flat);
  for (const Part& part : own_parts()) {
    const auto at = [&](const HeldState& held) {
      return view(held.value, byte_of(held.held, part.range.begin), part.range.size());
    };
    LambMoments::Slice slice{.masters = at(masters),
                             .grads = view(out_.grads, grad_byte(part.range.begin), part.range.size()),
                             .exp_avg = at(*states[rules::state<rules::Lamb>("exp_avg")]),
                             .exp_avg_sq = at(*states[rules::state<rules::Lamb>("exp_avg_sq")]),
                             .weight_decay = part.rule.treatment.weight_decay,
                             .chunks = {}};
    const Range& numbers = chunks[static_cast<size_t>(part.rule.tensor)];
    for (int64_t i = numbers.begin; i < numbers.end; ++i) {
      const Range& chunk = out_.flat.chunks[static_cast<size_t>(i)];  // all of it is one rank's
      if (chunk.begin < part.range.begin || chunk.begin >= part.range.end) continue;
      slice.chunks.push_back({{chunk.begin - part.range.begin, chunk.end - part.range.begin}, i});
    }
    moments.slices.push_back(std::move(slice));
  }
  const ValueId weight_sums = moments.weight_sums, update_sums = moments.update_sums;
  if (!moments.slices.empty()) emit(out_.update, std::move(moments));
  gather_chunks(weight_sums);
  const int after = gather_chunks(update_sums);
  emit(out_.update, lamb.trust(tensors(treatments), out_.scalars, weight_sums, update_sums, all), after);
  return all;
}

}  // namespace ct
