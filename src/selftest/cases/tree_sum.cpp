#include <bit>
#include <span>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/tree.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<TreePush>) {
  constexpr int64_t kN = 77;
  for (const int s : {2, 3, 4, 6, 8, 11}) {
    const auto leaves = random_leaves(s, kN);
    const int levels = static_cast<int>(std::bit_width(static_cast<unsigned>(s - 1)));
    /// Level k of a binary counter that has counted `count` leaves; empty where its bit is not set.
    const auto level = [&](int count, int k) {
      if ((count >> k & 1) == 0) return Doubles();
      const auto sum =
          reference_tree(std::span(leaves).subspan(static_cast<size_t>(count >> (k + 1) << (k + 1)), size_t{1} << k));
      return Doubles(sum.begin(), sum.end());
    };
    for (int i = 0; i < s; ++i) {
      const bool last = i == s - 1;
      Case c;
      TreePush op{.last = last};
      const Doubles leaf(leaves[at(i)].begin(), leaves[at(i)].end());
      const auto total = reference_tree(leaves);
      op.leaf = last ? c.in_out({kN}, leaf, Doubles(total.begin(), total.end())) : c.in({kN}, leaf);
      op.counter = c.in_out({1}, {static_cast<double>(i)}, {last ? 0.0 : i + 1.0}, {}, DType::i32);
      for (int k = 0; k < levels; ++k) {
        op.levels.push_back(c.in_out({kN}, level(i, k), last ? Doubles() : level(i + 1, k)));
      }
      cases.push_back(c.of(op, " leaf ", i, " of ", s));
    }
  }
}

}  // namespace ct::cases
