#include "graph/ops.h"

#include <utility>

namespace ct {

Ids BatchNorm::reads() const {
  return mean == kNone ? present({x, residual, w, b, running_mean, running_var}) : present({x, residual, w, b});
}

Ids Combine::reads() const {
  Ids ids = from;
  ids.insert(ids.end(), {slots, weights});
  return present(std::move(ids));
}
Ids CombineGradWeights::reads() const {
  Ids ids = from;
  ids.insert(ids.end(), {slots, dy});
  return ids;
}

Ids TreePush::reads() const {
  Ids ids{leaf, counter};
  ids.insert(ids.end(), levels.begin(), levels.end());
  return ids;
}
Ids TreePush::writes() const { return reads(); }

Ids reads_of(const Update& update) {
  Ids ids{update.scalars};
  for (const UpdateSlice& s : update.slices) {
    ids.insert(ids.end(), {s.masters, s.grads});
    ids.insert(ids.end(), s.states.begin(), s.states.end());
  }
  ids.push_back(update.ratios);
  return present(std::move(ids));
}
Ids writes_of(const Update& update, bool writes_states) {
  Ids ids;
  for (const UpdateSlice& s : update.slices) {
    ids.push_back(s.masters);
    if (writes_states) ids.insert(ids.end(), s.states.begin(), s.states.end());
    ids.push_back(s.copy);
  }
  return present(std::move(ids));
}

namespace {
template <class F>
auto visit_op(const Op& op, F f) {
  return std::visit([&](const auto& kind) { return std::visit(f, kind); }, op);
}
}  // namespace

std::string_view name_of(const Op& op) {
  return visit_op(op, [](const auto& o) -> std::string_view {
    if constexpr (requires { o.name(); }) return o.name();
    return o.kName;
  });
}
Ids reads(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.reads(); });
}
Ids writes(const Op& op) {
  return visit_op(op, [](const auto& o) { return o.writes(); });
}

}  // namespace ct
