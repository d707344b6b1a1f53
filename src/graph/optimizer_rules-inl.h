// The formulas of the elementwise optimizers (optimizer_rules.h), one source code for all backends: the order of
// operations, and with it every bit, is the same on each. No include guard: a backend includes this inside its own
// namespace, once for each instruction set, after
//   CT_RULE  the attributes of its functions
//   V        any type of its registers, with V(float), + - * / of two V, unary -, fma(a, b, c) = a b + c with one
//            rounding, sqrt, not_negative (0 below 0) and sign (0 for 0, NaN for NaN)
// A Formula<Rule, form> is constructed once a step from f64 numbers, which it converts to f32. Then it is applied to
// every element:
//   formula(step, gradient, weight, states)
// where the gradient is already scaled. It updates the weight and its states.
//
// Only fma() fuses a product and a sum.

/// The numbers that all formulas read.
struct StepNumbers {
  float minus_lr, weight_decay, trust;
};

template <class Rule, int kForm>
struct Formula;

//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= lr m/correction1 / (sqrt(v/correction2) + eps)
template <int kForm>
struct Formula<rules::Adam, kForm> {
  float beta1, rest1, beta2, rest2, correct1, correct2, eps;

  CT_RULE static Formula of(const rules::Adam& rule, const rules::Adam::Coefficients& c) {
    return {.beta1 = static_cast<float>(c.beta1),
            .rest1 = static_cast<float>(1 - c.beta1),
            .beta2 = static_cast<float>(c.beta2),
            .rest2 = static_cast<float>(1 - c.beta2),
            .correct1 = static_cast<float>(1 / c.bias_correction1),
            .correct2 = static_cast<float>(1 / ::sqrt(c.bias_correction2)),
            .eps = static_cast<float>(rule.eps)};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::Adam::States<V>& s) const {
    if constexpr (kForm == rules::Adam::l2) g = fma(V(step.weight_decay), w, g);
    s.exp_avg = fma(V(beta1), s.exp_avg, V(rest1) * g);
    s.exp_avg_sq = fma(V(beta2), s.exp_avg_sq, V(rest2) * (g * g));
    V u = s.exp_avg * V(correct1) / fma(sqrt(s.exp_avg_sq), V(correct2), V(eps));
    if constexpr (kForm == rules::Adam::decoupled) u = fma(V(step.weight_decay), w, u);
    w = fma(V(step.minus_lr), u, w);
  }
};

/// SGD's step; the gradient includes the decay.
template <int kForm>
struct Descent {
  float momentum;

  template <class V>
  CT_RULE void descend(const StepNumbers& step, V g, V& w, rules::Sgd::States<V>& s) const {
    if constexpr (kForm != rules::Sgd::plain) {
      s.momentum_buffer = fma(V(momentum), s.momentum_buffer, g);
      g = kForm == rules::Sgd::nesterov ? fma(V(momentum), s.momentum_buffer, g) : s.momentum_buffer;
    }
    w = fma(V(step.minus_lr), g, w);
  }
};

//   b = momentum b + g;  w -= lr (nesterov ? g + momentum b : b)
template <int kForm>
struct Formula<rules::Sgd, kForm> : Descent<kForm> {
  CT_RULE static Formula of(const rules::Sgd&, const rules::Sgd::Coefficients& c) {
    return {{static_cast<float>(c.momentum)}};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::Sgd::States<V>& s) const {
    this->descend(step, fma(V(step.weight_decay), w, g), w, s);
  }
};

//   g = trust (g + weight_decay w), then as SGD
template <int kForm>
struct Formula<rules::Lars, kForm> : Descent<kForm> {
  CT_RULE static Formula of(const rules::Lars&, const rules::Lars::Coefficients& c) {
    return {{static_cast<float>(c.momentum)}};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::Lars::States<V>& s) const {
    this->descend(step, V(step.trust) * fma(V(step.weight_decay), w, g), w, s);
  }
};

//   v = alpha v + (1 - alpha) g^2;  centered: a = alpha a + (1 - alpha) g and v - a^2 in place of v;
//   u = g / (sqrt(v) + eps);  momentum: b = momentum b + u in place of u;  w -= lr u
template <int kForm>
struct Formula<rules::RmsProp, kForm> {
  float alpha, rest, eps, momentum;

  CT_RULE static Formula of(const rules::RmsProp& rule, const rules::RmsProp::Coefficients& c) {
    return {.alpha = static_cast<float>(rule.alpha),
            .rest = static_cast<float>(1 - rule.alpha),
            .eps = static_cast<float>(rule.eps),
            .momentum = static_cast<float>(c.momentum)};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::RmsProp::States<V>& s) const {
    g = fma(V(step.weight_decay), w, g);
    s.square_avg = fma(V(alpha), s.square_avg, V(rest) * (g * g));
    V v = s.square_avg;
    if constexpr ((kForm & rules::RmsProp::centered) != 0) {
      s.grad_avg = fma(V(alpha), s.grad_avg, V(rest) * g);
      v = not_negative(fma(-s.grad_avg, s.grad_avg, v));
    }
    V u = g / (sqrt(v) + V(eps));
    if constexpr ((kForm & rules::RmsProp::momentum) != 0)
      u = s.momentum_buffer = fma(V(momentum), s.momentum_buffer, u);
    w = fma(V(step.minus_lr), u, w);
  }
};

//   sum += g^2;  w -= lr g / (sqrt(sum) + eps)
template <int kForm>
struct Formula<rules::Adagrad, kForm> {
  float eps;

  CT_RULE static Formula of(const rules::Adagrad& rule, const rules::Adagrad::Coefficients&) {
    return {static_cast<float>(rule.eps)};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::Adagrad::States<V>& s) const {
    g = fma(V(step.weight_decay), w, g);
    s.sum = fma(g, g, s.sum);
    w = fma(V(step.minus_lr), g / (sqrt(s.sum) + V(eps)), w);
  }
};

//   w -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay w);  m = beta2 m + (1 - beta2) g
template <int kForm>
struct Formula<rules::Lion, kForm> {
  float beta1, rest1, beta2, rest2;

  CT_RULE static Formula of(const rules::Lion&, const rules::Lion::Coefficients& c) {
    return {.beta1 = static_cast<float>(c.beta1),
            .rest1 = static_cast<float>(1 - c.beta1),
            .beta2 = static_cast<float>(c.beta2),
            .rest2 = static_cast<float>(1 - c.beta2)};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::Lion::States<V>& s) const {
    const V direction = sign(fma(V(beta1), s.exp_avg, V(rest1) * g));
    w = fma(V(step.minus_lr), fma(V(step.weight_decay), w, direction), w);
    s.exp_avg = fma(V(beta2), s.exp_avg, V(rest2) * g);
  }
};

/// LAMB's update before rate and trust: both of its passes compute it, to the same bits.
template <class V>
CT_RULE V lamb_update(V m, V v, V w, V eps, V weight_decay) {
  return fma(weight_decay, w, m / (sqrt(v) + eps));
}

//   w -= lr trust (m / (sqrt(v) + eps) + weight_decay w)
template <int kForm>
struct Formula<rules::Lamb, kForm> {
  float eps;

  CT_RULE static Formula of(const rules::Lamb& rule, const rules::Lamb::Coefficients&) {
    return {static_cast<float>(rule.eps)};
  }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V, V& w, rules::Lamb::States<V>& s) const {
    const V u = lamb_update(s.exp_avg, s.exp_avg_sq, w, V(eps), V(step.weight_decay));
    w = fma(V(step.minus_lr * step.trust), u, w);
  }
};

//   w -= lr (g + weight_decay w)
template <int kForm>
struct Formula<rules::Muon, kForm> {
  CT_RULE static Formula of(const rules::Muon&, const rules::Muon::Coefficients&) { return {}; }
  template <class V>
  CT_RULE void operator()(const StepNumbers& step, V g, V& w, rules::Muon::States<V>&) const {
    w = fma(V(step.minus_lr), fma(V(step.weight_decay), w, g), w);
  }
};

/// LAMB's first pass: updates Adam's moments of an element and returns its update.
struct LambMomentsFormula {
  float beta1, rest1, beta2, rest2, eps;

  CT_RULE static LambMomentsFormula of(double eps, const rules::Lamb::Coefficients& c) {
    return {.beta1 = static_cast<float>(c.beta1),
            .rest1 = static_cast<float>(1 - c.beta1),
            .beta2 = static_cast<float>(c.beta2),
            .rest2 = static_cast<float>(1 - c.beta2),
            .eps = static_cast<float>(eps)};
  }
  template <class V>
  CT_RULE V operator()(float weight_decay, V g, V w, V& m, V& v) const {
    m = fma(V(beta1), m, V(rest1) * g);
    v = fma(V(beta2), v, V(rest2) * (g * g));
    return lamb_update(m, v, w, V(eps), V(weight_decay));
  }
};

/// Muon's momentum: updates the buffer and returns the direction. rest = 1 - momentum.
template <class V>
CT_RULE V muon_direction(float rest, bool nesterov, V g, V& buffer) {
  buffer = fma(V(rest), g - buffer, buffer);
  return nesterov ? fma(V(rest), g - buffer, buffer) : buffer;
}

/// An exponential moving average. rest = 1 - decay.
template <class V>
CT_RULE V moving_average(float rest, V x, V average) {
  return fma(V(rest), x - average, average);
}

/// The numbers that a formula reads from the step and a slice; `trust` is the slice's trust ratio.
template <class Rule, class Scalars>
CT_RULE StepNumbers step_of(const Scalars& s, double weight_decay, float lr_scale, float trust) {
  double lr = s.lr * lr_scale;
  const auto coefficients = rules::coefficients_in<Rule>(s.coefficients);
  if constexpr (requires { coefficients.rate_factor; }) lr *= coefficients.rate_factor;
  return {.minus_lr = -static_cast<float>(lr), .weight_decay = static_cast<float>(weight_decay), .trust = trust};
}

#undef CT_RULE
