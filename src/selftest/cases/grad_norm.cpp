#include <limits>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<SquareSums>) {
  using Chunk = SquareSums::Chunk;
  for (const std::vector<Chunk>& chunks : {std::vector<Chunk>{{{0, 1}, 0}},
                                           {{{0, 4096}, 2}, {{4096, 4097}, 0}, {{4112, 4115}, 3}},
                                           {{{0, 450}, 0}, {{464, 470}, 1}, {{480, 2880}, 2}, {{2880, 2896}, 3}}}) {
    Case c;
    const int64_t numel = round_up(chunks.back().range.end, kRowPad);
    Doubles grads(at(numel), std::numeric_limits<double>::quiet_NaN());  // NaN between the chunks
    Doubles before(5, -1), sums = before, tolerance(5);                  // sums of other chunks stay
    const Doubles values = normal(grads.size(), 5);
    for (const auto& [r, sum] : chunks) {
      sums[at(sum)] = 0;
      for (int64_t i = r.begin; i < r.end; ++i) sums[at(sum)] += (grads[at(i)] = values[at(i)]) * values[at(i)];
      tolerance[at(sum)] = static_cast<double>(r.size()) * std::numeric_limits<double>::epsilon() * sums[at(sum)];
    }
    const ValueId g = c.in({numel}, grads), out = c.in_out({5}, before, sums, tolerance, DType::f64);
    cases.push_back(c.of(SquareSums{g, out, chunks}, " ", numel, " in ", chunks.size(), " chunks"));
  }
}

}  // namespace ct::cases
