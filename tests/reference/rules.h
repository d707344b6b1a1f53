// The optimizers' formulas in plain f32, and every rule in every form, for tests of backends: beside fusing a product
// and a sum where a formula says so, an instruction set has no choice.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "graph/optimizer_rules.h"

namespace ct::scalar_rules {

struct Register {
  float v;
  Register() = default;
  explicit Register(float x) : v(x) {}
};
inline Register operator+(Register a, Register b) { return Register(a.v + b.v); }
inline Register operator-(Register a, Register b) { return Register(a.v - b.v); }
inline Register operator*(Register a, Register b) { return Register(a.v * b.v); }
inline Register operator/(Register a, Register b) { return Register(a.v / b.v); }
inline Register operator-(Register a) { return Register(-a.v); }
inline Register fma(Register a, Register b, Register c) { return Register(std::fma(a.v, b.v, c.v)); }
inline Register sqrt(Register a) { return Register(std::sqrt(a.v)); }
inline Register not_negative(Register a) { return Register(std::fmax(a.v, 0.0f)); }
inline Register sign(Register a) { return Register(a.v > 0 ? 1.0f : a.v < 0 ? -1.0f : a.v); }

#define CT_RULE inline
#include "graph/optimizer_rules-inl.h"

template <class Rule, class Body>
void for_forms(Body body) {
  [&]<int... kForms>(std::integer_sequence<int, kForms...>) {
    const auto of_form = [&]<int kForm>(std::integral_constant<int, kForm> form) {
      Rule rule;
      if constexpr (Rule::kForms > 1) rule.form = kForm;
      SCOPED_TRACE(std::string(Rule::kName) + " form " + std::to_string(kForm));
      body(rule, form);
    };
    (of_form(std::integral_constant<int, kForms>()), ...);
  }
  (std::make_integer_sequence<int, Rule::kForms>());
}
/// body(rule, form) for all of them.
template <class Body>
void for_rules(Body body) {
  [&]<size_t... I>(std::index_sequence<I...>) { (for_forms<std::variant_alternative_t<I, rules::Any>>(body), ...); }
  (std::make_index_sequence<std::variant_size_v<rules::Any>>());
}

}  // namespace ct::scalar_rules
