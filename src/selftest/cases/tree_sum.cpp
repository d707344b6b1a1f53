#include <bit>
#include <span>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/reference/tree.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<TreePush>) {
  struct Sum {
    int leaves;
    int64_t numel;
  };
  for (const auto& [s, n] : {Sum{2, 77}, {3, 77}, {4, 1}, {5, 1030}, {6, 77}, {8, 77}, {11, 77}}) {
    const auto leaves = random_leaves(s, n);
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
      op.leaf = last ? c.in_out({n}, leaf, Doubles(total.begin(), total.end())) : c.in({n}, leaf);
      op.counter = c.in_out({1}, {static_cast<double>(i)}, {last ? 0.0 : i + 1.0}, {}, DType::i32);
      for (int k = 0; k < levels; ++k) {
        op.levels.push_back(c.in_out({n}, level(i, k), last ? Doubles() : level(i + 1, k)));
      }
      cases.push_back(c.of(op, " leaf ", i, " of ", s));
    }
  }
  // A single level for more than two leaves: they are added as they come.
  const auto terms = random_leaves(3, 19);
  const Doubles sum(terms[0].begin(), terms[0].end()), leaf(terms[1].begin(), terms[1].end());
  Doubles next;
  for (size_t i = 0; i < leaf.size(); ++i) next.push_back(terms[1][i] + terms[0][i]);
  for (const bool last : {false, true}) {
    Case c;
    TreePush op{.last = last};
    op.leaf = last ? c.in_out({19}, leaf, next) : c.in({19}, leaf);
    op.counter = c.in_out({1}, {4}, {last ? 0.0 : 5}, {}, DType::i32);
    op.levels = {last ? c.in({19}, sum) : c.in_out({19}, sum, next)};
    cases.push_back(c.of(op, last ? " the last" : " a leaf", " as it comes"));
  }
}

}  // namespace ct::cases
