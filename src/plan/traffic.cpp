#include "plan/traffic.h"

namespace ct {
namespace {

double of(int64_t n) { return static_cast<double>(n); }

Moved& operator+=(Moved& sum, const Moved& more) {
  sum.elements += more.elements;
  sum.bytes += more.bytes;
  return sum;
}

Moved of_runs(const std::vector<Run>& runs) {
  Moved moved;
  for (const Run& run : runs)
    moved += {of(run.range.size()), of(run.range.size() * static_cast<int64_t>(size_of(run.dtype)))};
  return moved;
}

/// Gradients are moved without the padding between parameters.
Moved of_gradients(const FlatLayout& flat, const std::vector<Run>& place) {
  Moved moved;
  for (const Range& parameter : flat.parameters) moved += of_runs(intersection(place, parameter));
  return moved;
}

Moved whole(const LoweredProgram& program, const AllReduce& op) {
  const double elements = of(program[op.data].shape.stored());
  return {2 * elements, 2 * elements * sizeof(float)};
}
Moved whole(const LoweredProgram& program, const ReduceScatter& op) { return of_gradients(program.flat, op.place); }
Moved whole(const LoweredProgram& program, const AllGather& op) {
  return op.what == AllGather::What::grads ? of_gradients(program.flat, op.place) : of_runs(op.place);
}

bool is_norms(const CommOp& op) {
  const auto* gather = std::get_if<AllGather>(&op);
  return gather != nullptr && gather->what == AllGather::What::chunk_sums;
}

}  // namespace

int64_t message_bytes(const LoweredProgram& program, const CommOp& op) {
  if (const auto* all_reduce = std::get_if<AllReduce>(&op)) return stored_bytes(program[all_reduce->data]);
  return static_cast<int64_t>(std::visit([&](const auto& kind) { return whole(program, kind).bytes; }, op));
}

StepTraffic step_traffic(const LoweredProgram& program) {
  const Distribution& d = program.distribution;
  const double part = of(d.ranks - 1) / d.ranks;
  StepTraffic traffic;
  const auto add = [&](const Program& steps, double times) {
    for (const Step& step : steps) {
      const auto* op = std::get_if<CommOp>(&step.op);
      if (op == nullptr) continue;
      const Moved all = std::visit([&](const auto& kind) { return whole(program, kind); }, *op);
      (is_norms(*op) ? traffic.norms : traffic.training) += {times * part * all.elements, times * part * all.bytes};
    }
  };
  add(program.micro, d.accumulation - 1);
  add(program.last, 1);
  add(program.update, 1);
  return traffic;
}

}  // namespace ct
