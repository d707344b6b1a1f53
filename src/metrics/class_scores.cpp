#include "metrics/class_scores.h"

#include <algorithm>

namespace ct {
namespace {

double quotient(double part, double whole) { return whole > 0 ? part / whole : 0; }

template <class Weight>
ClassScores mean(const std::vector<ClassScores>& classes, Weight weight) {
  ClassScores sum;
  double weights = 0;
  for (const ClassScores& c : classes) {
    const double w = weight(c);
    weights += w;
    sum.precision += w * c.precision;
    sum.recall += w * c.recall;
    sum.f1 += w * c.f1;
    sum.support += c.support;
    sum.predicted += c.predicted;
  }
  for (double* const score : {&sum.precision, &sum.recall, &sum.f1}) *score = quotient(*score, weights);
  return sum;
}

}  // namespace

int64_t Confusion::count(int32_t label, int32_t predicted) const {
  const auto found = pairs_.find({label, predicted});
  return found == pairs_.end() ? 0 : found->second;
}

std::vector<ClassScores> Confusion::scores() const {
  std::vector<ClassScores> scores = classes_;
  for (int32_t c = 0; c < classes(); ++c) {
    ClassScores& s = scores[static_cast<size_t>(c)];
    const auto right = static_cast<double>(count(c, c));
    s.precision = quotient(right, static_cast<double>(s.predicted));
    s.recall = quotient(right, static_cast<double>(s.support));
    s.f1 = quotient(2 * right, static_cast<double>(s.predicted + s.support));
  }
  return scores;
}

std::vector<Confusion::Pair> Confusion::pairs() const {
  std::vector<Pair> all;
  for (const auto& [classes, images] : pairs_) all.push_back({classes.first, classes.second, images});
  return all;
}

std::vector<Confusion::Pair> Confusion::mistakes(size_t most) const {
  std::vector<Pair> all;
  for (const auto& [pair, images] : pairs_)
    if (pair.first != pair.second) all.push_back({pair.first, pair.second, images});
  std::ranges::stable_sort(all, std::ranges::greater(), &Pair::images);
  all.resize(std::min(all.size(), most));
  return all;
}

ClassScores macro_mean(const std::vector<ClassScores>& classes) {
  return mean(classes, [](const ClassScores& c) { return occurs(c) ? 1.0 : 0.0; });
}

ClassScores weighted_mean(const std::vector<ClassScores>& classes) {
  return mean(classes, [](const ClassScores& c) { return static_cast<double>(c.support); });
}

}  // namespace ct
