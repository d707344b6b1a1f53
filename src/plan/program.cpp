#include "plan/program.h"

#include <bit>

namespace ct {

Assignment Distribution::assignment() const {
  const bool whole_subtree = std::has_single_bit(static_cast<unsigned>(accumulation));
  return effective_stage() <= 1 && (ranks == 1 || whole_subtree || !reproducible) ? Assignment::contiguous
                                                                                  : Assignment::in_turn;
}

int Distribution::micro_batch(int rank, int micro_step) const {
  switch (assignment()) {
    case Assignment::contiguous:
      return rank * accumulation + micro_step;
    case Assignment::in_turn:
      return micro_step * ranks + rank;
  }
  fail(ExitCode::bug, "internal error: no such assignment");
}

Origin origin(const std::vector<Value>& values, ValueId id) {
  int64_t bytes = 0;
  while (values[static_cast<size_t>(id)].base != kNone) {
    const Value& view = values[static_cast<size_t>(id)];
    bytes += view.offset;
    id = view.base;
  }
  return {id, bytes};
}

int64_t stored_bytes(const Value& value) { return value.shape.stored() * static_cast<int64_t>(size_of(value.dtype)); }

std::vector<int> count_readers(const Program& steps, const std::vector<Value>& values) {
  std::vector<int> readers(values.size());
  for (const Step& step : steps)
    for (const ValueId id : reads(step.op)) {
      ++readers[static_cast<size_t>(id)];
      if (const ValueId whole = origin(values, id).value; whole != id) ++readers[static_cast<size_t>(whole)];
    }
  return readers;
}

}  // namespace ct
