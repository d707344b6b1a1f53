// Muon's directions and their orthogonalisation.
#include <algorithm>
#include <cmath>
#include <utility>

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"
#include "selftest/cases/update_problem.h"
#include "selftest/reference/optimizer.h"

namespace ct::cases {

void add_cases(Cases& cases, Of<MuonMomentum>) {
  for (UpdateProblem p : update_problems()) {
    if (p.copy) continue;  // none is written
    for (const bool nesterov : {false, true}) {
      Case c;
      MuonMomentum op{
          .scalars = c.in(kScalarsShape, bytes_of(p.scalars), DType::u8), .momentum = 0.95, .nesterov = nesterov};
      for (const int64_t numel : slice_sizes(p)) {
        const auto n = at(numel);
        const Doubles g = normal(n, 1), buffer = normal(n, 2);
        Doubles g_after = g, b_after = buffer, tolerance(n);
        for (size_t i = 0; i < n && !p.skip; ++i) {
          g_after[i] = reference::muon_direction(op.momentum, nesterov, b_after[i], g[i] * p.scalars.grad_scale);
          tolerance[i] = 4 * kEps * (std::abs(g[i]) + std::abs(buffer[i]));
        }
        op.slices.push_back({.grads = c.in_out({numel}, g, g_after, tolerance),
                             .momentum_buffer = c.in_out({numel}, buffer, b_after, tolerance)});
      }
      cases.push_back(c.of(std::move(op), p.text(), nesterov ? " Nesterov" : ""));
    }
  }
}

void add_cases(Cases& cases, Of<Orthogonalize>) {
  struct Problem {
    int64_t rows, columns, stride;
  };
  // Wide and tall; convolutions, whose rows lie close together, and linear layers, whose rows are padded; own products
  // and, from some hundred columns on, the library's.
  for (const Problem& p : {Problem{1, 1, 1},
                           {5, 75, 75},
                           {16, 16, 16},
                           {84, 120, 128},
                           {33, 7, 16},
                           {10, 84, 96},
                           {150, 300, 304},
                           {300, 60, 64}})
    for (const auto& [zero, between] : {std::pair{false, DType::f32}, {true, DType::f32}, {false, DType::bf16}}) {
      if (zero && p.rows != 5) continue;                                   // a direction of nothing
      if (between == DType::bf16 && p.rows * p.columns > 11000) continue;  // slow without tensor cores
      Case c;
      const double scale = 1.5, most = 1e30;  // of scratch anything is allowed
      const optim::Muon muon;
      const size_t rows = at(p.rows), columns = at(p.columns), stride = at(p.stride);
      const Doubles dense = zero ? Doubles(rows * columns) : normal(rows * columns, 1);
      const Doubles result = reference::orthogonalize(muon, dense, rows, columns);
      Doubles before(rows * stride), after(rows * stride), tolerance(rows * stride);
      for (size_t r = 0; r < rows; ++r)
        for (size_t k = 0; k < columns; ++k) {
          before[r * stride + k] = dense[r * columns + k];
          after[r * stride + k] = scale * result[r * columns + k];
          // Entries are at most 1 or so; each turn magnifies the error of small singular values by 3.4445. Rounded
          // between products, all entries together have an error of a few percent.
          const double rounded = 0.25 / std::sqrt(static_cast<double>(std::max(p.rows, p.columns)));
          tolerance[r * stride + k] = zero ? 0 : between == DType::f32 ? 2e-4 : rounded;
        }
      const int64_t n = std::min(p.rows, p.columns);
      const auto scratch = [&](int64_t a, int64_t b) {
        return c.in_out({a, b}, Doubles(at(a * b)), Doubles(at(a * b)), Doubles(at(a * b), most));  // or left alone
      };
      Orthogonalize op = muon.orthogonalize({}, p.rows, p.columns);
      op.x = c.in_out({p.rows * p.stride}, before, after, tolerance);
      op.left = scratch(p.rows, p.columns);
      op.product = scratch(p.rows, p.columns);
      op.gram = scratch(n, n);
      op.polynomial = scratch(n, n);
      op.stride = p.stride;
      op.scale = scale;
      op.between = between;
      cases.push_back(c.of(std::move(op), " ", p.rows, "x", p.columns, zero ? " of zeros" : "",
                           between == DType::f32 ? "" : " rounded between products"));
    }
}

}  // namespace ct::cases
