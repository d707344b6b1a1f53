#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/loss_scale.h"
#include "plan/step_scalars.h"
#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<StepControl>) {
  const StepScalars before{
      .applied = 12, .skipped = 2, .bad_streak = 1, .window_begin = 10, .norm = -1, .grad_scale = -1};
  constexpr int64_t kRow = 1 + kCoefficients;  // lr and coefficients
  Doubles schedule;
  for (int i = 0; i < 3 * kRow; ++i) schedule.push_back(0.1 * i);
  const auto take_row = [&](StepScalars& s) {  // number 12 - 10
    std::copy_n(schedule.begin() + 2 * kRow + 1, kCoefficients, s.coefficients.begin());
  };
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Doubles> all_sums{{9, 16}, {1e-8}, {0, 0}, {infinity, 1}, {1, std::nan("")}};
  for (const size_t count : {1023, 1024, 1025, 3100}) {  // far apart, so that their order shows
    all_sums.push_back(normal(count, static_cast<uint32_t>(count), 8));
    for (double& sum : all_sums.back()) sum = std::exp(sum);
  }
  for (const Doubles& sums : all_sums)
    for (const double clip : {0.0, 0.5, 100.0})
      for (const int64_t leaves : {1, 3, 4}) {
        if (sums.size() > 2 && (clip != 0.5 || leaves != 3)) continue;
        Case c;
        StepScalars after = before;
        double total = 0;
        for (const double sum : sums) total += sum;
        after.norm = std::sqrt(total) / static_cast<double>(leaves);
        after.lr = schedule[2 * kRow];  // of a skipped step too: what it would have been
        if (std::isfinite(after.norm)) {
          after.applied = 13, after.bad_streak = 0, after.skip = 0;
          take_row(after);
          after.grad_scale = 1 / static_cast<double>(leaves);
          if (clip > 0 && clip < after.norm + 1e-6)
            after.grad_scale = clip / (after.norm + 1e-6) / static_cast<double>(leaves);
        } else {
          after.skipped = 3, after.bad_streak = 2, after.skip = 1;
        }
        const ValueId s = c.in({static_cast<int64_t>(sums.size())}, sums, DType::f64);
        const ValueId rows = c.in({3 * kRow}, schedule, DType::f64);
        const ValueId scalars = c.in_out(shape_of<StepScalars>(), bytes_of(before), bytes_of(after), {}, DType::u8);
        cases.push_back(c.of(StepControl{s, rows, scalars, clip, leaves}, " norm ", after.norm, " clip ", clip, " of ",
                             leaves, " micro-batches"));
      }

  for (const double predivided : {3.0, 4.0, 0.5}) {
    Case c;
    StepScalars after = before;
    const double leaves = 3 / predivided;
    after.norm = 5 / leaves, after.lr = schedule[2 * kRow];
    take_row(after), after.applied = 13, after.bad_streak = 0, after.skip = 0, after.grad_scale = 1 / leaves;
    const ValueId s = c.in({2}, {9, 16}, DType::f64);
    const ValueId rows = c.in({3 * kRow}, schedule, DType::f64);
    const ValueId scalars = c.in_out(shape_of<StepScalars>(), bytes_of(before), bytes_of(after), {}, DType::u8);
    cases.push_back(c.of(
        StepControl{
            .sums = s, .schedule = rows, .scalars = scalars, .clip = 0, .micro_batches = 3, .predivided = predivided},
        " of 3 micro-batches divided by ", predivided, " beforehand"));
  }

  // In fp16 the gradients carry a scale, which this step may move.
  struct Scaled {
    const char* text;
    bool overflow;
    LossScaleState before, after;
    double clip = 0;  // by the norm without the scale
  };
  for (const Scaled& p : {Scaled{"of a clean step", false, {1024, 7, 2, 2}, {1024, 8, 2, 2}},
                          {"of a clipped step", false, {1024, 7, 2, 2}, {1024, 8, 2, 2}, /*clip=*/0.001},
                          {"doubled", false, {1024, 7, 3, 1}, {2048, 8, 3, 2}},
                          {"of an endured overflow", true, {1024, 7, 2, 2}, {1024, 8, 7, 1}},
                          {"lowered", true, {1024, 7, 2, 1}, {512, 8, 7, 1}},
                          {"at its end", true, {1, 7, 2, 1}, {1, 8, 7, 1, /*diverged=*/1}}}) {
    Case c;
    StepScalars after = before;
    after.norm = p.overflow ? infinity : 5 / 1024.0 / 2;
    after.lr = schedule[2 * kRow];
    if (p.overflow)
      after.skipped = 3, after.bad_streak = 2, after.skip = 1;
    else
      take_row(after), after.applied = 13, after.bad_streak = 0, after.skip = 0,
                       after.grad_scale = (p.clip > 0 ? p.clip / (after.norm + 1e-6) : 1) / 2 / 1024.0;
    const ValueId s = c.in({2}, {p.overflow ? infinity : 9, 16}, DType::f64);
    const ValueId rows = c.in({3 * kRow}, schedule, DType::f64);
    const ValueId scalars = c.in_out(shape_of<StepScalars>(), bytes_of(before), bytes_of(after), {}, DType::u8);
    const ValueId scale = c.in_out(shape_of<LossScaleState>(), bytes_of(p.before), bytes_of(p.after), {}, DType::u8);
    const LossScaleOptions options{.min = 1, .window = 4, .hysteresis = 2};
    cases.push_back(
        c.of(StepControl{s, rows, scalars, p.clip, /*micro_batches=*/2, scale, options}, " scale ", p.text));
  }
}

}  // namespace ct::cases
