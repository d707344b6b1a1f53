#include "graph/ops.h"

namespace ct {

Ids TreePush::reads() const {
  Ids ids{leaf, counter};
  ids.insert(ids.end(), levels.begin(), levels.end());
  return ids;
}
Ids TreePush::writes() const { return reads(); }

Ids Sgd::reads() const {
  Ids ids{params, grads, scalars};
  if (momentum_buffer != kNone) ids.push_back(momentum_buffer);
  return ids;
}
Ids Sgd::writes() const { return momentum_buffer == kNone ? Ids{params} : Ids{params, momentum_buffer}; }

namespace {
template <class F>
auto visit_op(const Op& op, F f) {
  return std::visit([&](const auto& kind) { return std::visit(f, kind); }, op);
}
}  // namespace

std::string_view name_of(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.kName; });
}
Ids reads(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.reads(); });
}
Ids writes(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.writes(); });
}

}  // namespace ct
