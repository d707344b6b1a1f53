#include "selftest/reference/tokens.h"

#include "selftest/cases/add_cases.h"
#include "selftest/cases/case.h"

namespace ct::cases {
namespace {

using reference::PatchGrid;
using reference::TokenRows;

struct TokensProblem {
  TokenRows s;
  Shape x_shape;  // tokens, or the pixels of an image

  Shape y_shape() const { return {s.n, s.tokens, s.columns}; }
  Shape positions_shape() const { return {1, s.tokens, s.columns}; }
  Shape class_shape() const { return {1, 1, s.columns}; }
  std::string text() const { return str(" ", to_string(x_shape), s.class_token ? " with a class token" : ""); }
};

const std::vector<TokensProblem>& tokens_problems() {
  static const std::vector<TokensProblem> problems{
      {{3, 65, 48, true}, {3, 64, 48}}, {{2, 5, 7, true}, {2, 4, 7}},    {{17, 3, 21, true}, {17, 2, 21}},
      {{1, 2, 1, true}, {1, 1, 1}},     {{2, 6, 20, false}, {2, 6, 20}}, {{2, 16, 32, false}, {2, 4, 4, 32}},
      {{3, 6, 5, false}, {3, 2, 3, 5}}, {{5, 7, 9, true}, {5, 2, 3, 9}}};
  return problems;
}

const std::vector<Shape>& token_shapes() {
  static const std::vector<Shape> shapes{{4, 65, 48}, {3, 5, 7}, {1, 1, 1}, {17, 2, 21}};
  return shapes;
}

}  // namespace

void add_cases(Cases& cases, Of<Patches>, DType type) {
  for (const PatchGrid& s : {PatchGrid{2, 3, 32, 32, 4, 1},
                             {2, 3, 32, 32, 4, 0},
                             {1, 1, 6, 9, 3, 1},
                             {3, 2, 4, 2, 2, 1},
                             {1, 3, 8, 8, 8, 2},
                             {1, 1, 5, 5, 1, 7},
                             {1, 3, 28, 28, 7, 0}}) {
    Case c(type);
    const Shape images{s.n, s.channels, s.height, s.width};
    const Doubles values = normal(type, at(images.numel()), 1);
    const ValueId x = c.wide_in(images, values),
                  y = c.exact_out({s.n, s.tokens(), s.columns()}, reference::patches(s, values));
    cases.push_back(c.of(Patches{x, y, static_cast<int>(s.patch), static_cast<int>(s.shift)}, " ", to_string(images),
                         " by ", s.patch, " shift ", s.shift));
  }
}

void add_cases(Cases& cases, Of<Tokens>, DType type) {
  for (const TokensProblem& p : tokens_problems()) {
    Case c(type);
    const Doubles x = normal(type, at(p.x_shape.numel()), 1), positions = normal(type, at(p.s.tokens * p.s.columns), 2);
    const Doubles own = p.s.class_token ? normal(type, at(p.s.columns), 3) : Doubles{};
    Doubles expected = reference::tokens(p.s, x, own, positions);
    for (double& v : expected) v = static_cast<float>(v);
    const ValueId from = c.wide_in(p.x_shape, x),
                  class_token = p.s.class_token ? c.wide_in(p.class_shape(), own) : kNone,
                  added = c.wide_in(p.positions_shape(), positions),
                  y = c.wide_out(p.y_shape(), expected, Doubles(expected.size()));
    cases.push_back(c.of(Tokens{from, class_token, added, y}, p.text()));
  }
}

void add_cases(Cases& cases, Of<TokensGrad>, DType type) {
  for (const TokensProblem& p : tokens_problems()) {
    Case c(type);
    const Doubles dy = normal(type, at(p.y_shape().numel()), 1), x = normal(at(p.x_shape.numel()), 2);
    const Doubles positions = normal(at(p.s.tokens * p.s.columns), 3);
    const Doubles own = p.s.class_token ? normal(at(p.s.columns), 4) : Doubles{};
    const reference::TokenGradients g = reference::token_gradients(p.s, dy);
    const reference::TokenGradients sums = reference::token_gradients(p.s, squares(dy));
    const ValueId d = c.wide_in(p.y_shape(), dy), dx = c.exact_out(p.x_shape, g.dx),
                  dclass = p.s.class_token ? c.out(p.class_shape(), g.dclass_token, rounding(sums.dclass_token, p.s.n))
                                           : kNone,
                  dpositions = c.out(p.positions_shape(), g.dpositions, rounding(sums.dpositions, p.s.n));
    const auto z = [](const Doubles& v) { return complex(v); };
    c.gradient(dx, x, [=](const auto& v) { return weighted(dy, reference::tokens(p.s, v, z(own), z(positions))); });
    c.gradient(dpositions, positions,
               [=](const auto& v) { return weighted(dy, reference::tokens(p.s, z(x), z(own), v)); });
    if (p.s.class_token)
      c.gradient(dclass, own,
                 [=](const auto& v) { return weighted(dy, reference::tokens(p.s, z(x), v, z(positions))); });
    cases.push_back(c.of(TokensGrad{d, dx, dclass, dpositions}, p.text()));
  }
}

void add_cases(Cases& cases, Of<TakeToken>, DType type) {
  for (const Shape& s : token_shapes()) {
    Case c(type);
    const Doubles values = normal(type, at(s.numel()), 1);
    const ValueId x = c.wide_in(s, values),
                  y = c.exact_out({s[0], s[2]}, reference::take_token(s[0], s[1], s[2], values));
    cases.push_back(c.of(TakeToken{x, y}, " ", to_string(s)));
  }
}

void add_cases(Cases& cases, Of<TakeTokenGrad>, DType type) {
  for (const Shape& s : token_shapes()) {
    Case c(type);
    const Doubles d = normal(type, at(s[0] * s[2]), 1), x = normal(at(s.numel()), 2);
    const ValueId dy = c.wide_in({s[0], s[2]}, d),
                  dx = c.exact_out(s, reference::take_token_gradient(s[0], s[1], s[2], d));
    c.gradient(dx, x, [=](const auto& v) { return weighted(d, reference::take_token(s[0], s[1], s[2], v)); });
    cases.push_back(c.of(TakeTokenGrad{dy, dx}, " ", to_string(s)));
  }
}

}  // namespace ct::cases
