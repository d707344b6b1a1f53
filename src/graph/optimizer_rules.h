// The rules of the elementwise optimizers: the states of an element, the coefficients that change from step to step,
// and the options. optimizer_rules-inl.h has the formulas. Kernels include this too: standard library only.
//
// A rule is a struct of its options. In addition it has
//   kName         the name of its operation
//   CT_STATES     the states of an element, under the names in checkpoints; initially zero
//   Coefficients  doubles that the optimizer's module computes for each step (at most kCoefficients); an optional
//                 `rate_factor` multiplies the rate before the rate is rounded to f32
//   kForms        the number of its formulas, if more than one: the option `form` selects one, and kept(form) returns
//                 the states that it uses
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <variant>

namespace ct::rules {

/// The names in "a, b, c".
template <size_t kCount>
constexpr std::array<std::string_view, kCount> names_in(std::string_view list) {
  std::array<std::string_view, kCount> names;
  for (std::string_view& name : names) {
    name = list.substr(0, list.find(','));
    list.remove_prefix(name.size() < list.size() ? name.size() + 2 : name.size());
  }
  return names;
}

/// Declares the struct States<T>, with a member T for each state, and kStates, their names.
#define CT_STATES(...) \
  template <class T>   \
  struct States {      \
    T __VA_ARGS__;     \
  };                   \
  static constexpr auto kStates = ::ct::rules::names_in<sizeof(States<char>)>(#__VA_ARGS__)

/// The defaults of rules.
struct Rule {
  static constexpr int form = 0, kForms = 1;
  static constexpr bool kTrusted = false;  // reads the trust ratio of the slice's tensor
  static constexpr bool kReadsGradients = true;
  static constexpr bool kScalesGradients = true;  // by the step's grad_scale
  static constexpr bool kWritesStates = true;
};

/// Adam (Kingma & Ba, 2015) with L2 regularisation, or AdamW (Loshchilov & Hutter, 2019): decoupled decay.
struct Adam : Rule {
  static constexpr std::string_view kName = "adam";
  CT_STATES(exp_avg, exp_avg_sq);
  struct Coefficients {
    double beta1, beta2, bias_correction1, bias_correction2;  // 1 - beta^t
  };
  enum Form { l2, decoupled };
  static constexpr int kForms = 2;
  int form = decoupled;
  double eps = 1e-8;
};

/// PyTorch's SGD, dampening 0.
struct Sgd : Rule {
  static constexpr std::string_view kName = "sgd";
  CT_STATES(momentum_buffer);
  struct Coefficients {
    double momentum;
  };
  enum Form { plain, momentum, nesterov };
  static constexpr int kForms = 3;
  static constexpr States<bool> kept(int form) { return {.momentum_buffer = form != plain}; }
  int form = plain;
};

/// PyTorch's RMSprop (Tieleman & Hinton, 2012).
struct RmsProp : Rule {
  static constexpr std::string_view kName = "rmsprop";
  CT_STATES(square_avg, momentum_buffer, grad_avg);
  struct Coefficients {
    double momentum;
  };
  enum Form { plain, momentum, centered };  // a sum of these
  static constexpr int kForms = 4;
  static constexpr States<bool> kept(int form) {
    return {.square_avg = true, .momentum_buffer = (form & momentum) != 0, .grad_avg = (form & centered) != 0};
  }
  int form = plain;
  double alpha = 0.99, eps = 1e-8;
};

/// PyTorch's Adagrad (Duchi et al., 2011).
struct Adagrad : Rule {
  static constexpr std::string_view kName = "adagrad";
  CT_STATES(sum);
  struct Coefficients {
    double rate_factor;
  };
  double eps = 1e-10;
};

/// Lion (Chen et al., 2023).
struct Lion : Rule {
  static constexpr std::string_view kName = "lion";
  CT_STATES(exp_avg);
  struct Coefficients {
    double beta1, beta2;
  };
};

/// LARS (You et al., 2017): SGD of gradients that its trust ratio scales.
struct Lars : Sgd {
  static constexpr std::string_view kName = "lars";
  static constexpr bool kTrusted = true;
};

/// The second pass of LAMB (You et al., 2019). LambMoments (graph/ops.h) is the first.
struct Lamb : Rule {
  static constexpr std::string_view kName = "lamb";
  static constexpr bool kTrusted = true, kReadsGradients = false, kWritesStates = false;
  CT_STATES(exp_avg, exp_avg_sq);
  struct Coefficients {
    double beta1, beta2, rate_factor;
  };
  double eps = 1e-8;
};

/// The update of Muon (Jordan, 2024), whose gradients are the orthogonalised directions, already scaled.
struct Muon : Rule {
  static constexpr std::string_view kName = "muon";
  static constexpr bool kScalesGradients = false;
  static constexpr std::array<std::string_view, 0> kStates = {};
  template <class T>
  struct States {};
  struct Coefficients {};
};

/// The table of rules. ComputeOp (graph/ops.h), both backends, the test cases and the benchmarks follow from it.
using Any = std::variant<Adam, Sgd, RmsProp, Adagrad, Lion, Lars, Lamb, Muon>;

template <class Rule, class... Rules>
constexpr bool is_among(const std::variant<Rules...>*) {
  return (std::is_same_v<Rule, Rules> || ...);
}
template <class Rule>
constexpr bool kInTable = is_among<Rule>(static_cast<const Any*>(nullptr));

/// Does a form keep each state? In the order of kStates.
template <class Rule>
constexpr std::array<bool, Rule::kStates.size()> kept_states(int form) {
  std::array<bool, Rule::kStates.size()> kept{};
  if constexpr (requires { Rule::kept(form); })
    kept = __builtin_bit_cast(decltype(kept), Rule::kept(form));
  else
    kept.fill(true);
  return kept;
}

template <class Rule>
constexpr int kept_count(int form) {
  int count = 0;
  for (const bool kept : kept_states<Rule>(form)) count += kept;
  return count;
}

/// The place of a state in kStates; an unknown name does not compile.
template <class Rule>
consteval size_t state(std::string_view name) {
  for (size_t i = 0; i < Rule::kStates.size(); ++i)
    if (Rule::kStates[i] == name) return i;
  throw "no such state";
}

/// Converts a rule's Coefficients to the array in a step's scalars.
template <class Row, class Coefficients>
Row to_row(const Coefficients& coefficients) {
  Row row = {};
  if constexpr (!std::is_empty_v<Coefficients>) {
    static_assert(sizeof(Coefficients) <= sizeof(Row), "too many coefficients");
    std::memcpy(&row, &coefficients, sizeof coefficients);
  }
  return row;
}

/// Converts the array back to Coefficients.
template <class Rule, class Row>
#ifdef __CUDACC__
__host__ __device__
#endif
    typename Rule::Coefficients
    coefficients_in(const Row& row) {
  typename Rule::Coefficients coefficients{};
  if constexpr (!std::is_empty_v<typename Rule::Coefficients>) memcpy(&coefficients, &row, sizeof coefficients);
  return coefficients;
}

}  // namespace ct::rules
