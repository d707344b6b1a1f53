// The operands of an operation, named once: what it reads and writes, and where their addresses go.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace ct {

using ValueId = int32_t;
inline constexpr ValueId kNone = -1;
using Ids = std::vector<ValueId>;

/// Operands without those that are absent.
inline Ids present(Ids ids) {
  std::erase(ids, kNone);
  return ids;
}

/// `ids` and the given members of every slice, without absent ones.
template <class Slices, class... Members>
Ids with_slices(Ids ids, const Slices& slices, Members... members) {
  for (const auto& slice : slices) (ids.push_back(slice.*members), ...);
  return present(std::move(ids));
}

/// CT_OPERANDS((x, w, b), (y)) declares the members x, w, b and y. With CT_USES it also declares reads() and writes(),
/// which return the operands that are present, and the function of CT_NAMED.
#define CT_OPERANDS(read, written)       \
  ValueId CT_LIST read, CT_LIST written; \
  CT_USES(read, written)
#define CT_USES(read, written)                                    \
  Ids reads() const { return ::ct::present({CT_LIST read}); }     \
  Ids writes() const { return ::ct::present({CT_LIST written}); } \
  CT_NAMED(CT_LIST read, CT_LIST written)

/// CT_NAMED(x, w, b, y) declares each_operand(), which calls place(args.NAME, NAME) for every operand of whose name
/// `args` has a member: kernels' arguments have the names of the operations' operands.
#define CT_NAMED(...)                                       \
  template <class Args, class Place>                        \
  void each_operand(Args& args, const Place& place) const { \
    CT_RESCAN(CT_EACH(__VA_ARGS__))                         \
  }

#define CT_LIST(...) __VA_ARGS__
#define CT_EACH(name, ...)                                       \
  if constexpr (requires { args.name; }) place(args.name, name); \
  __VA_OPT__(CT_EACH_AGAIN CT_PARENS(__VA_ARGS__))
#define CT_EACH_AGAIN() CT_EACH
#define CT_PARENS ()
// Each scan takes one more name.
#define CT_RESCAN(...) CT_RESCAN_4(CT_RESCAN_4(CT_RESCAN_4(CT_RESCAN_4(__VA_ARGS__))))
#define CT_RESCAN_4(...) CT_RESCAN_1(CT_RESCAN_1(CT_RESCAN_1(CT_RESCAN_1(__VA_ARGS__))))
#define CT_RESCAN_1(...) __VA_ARGS__

}  // namespace ct
