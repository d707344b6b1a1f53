#include "metrics/calibration.h"

#include <algorithm>
#include <cmath>

namespace ct {
namespace {

/// The first and second derivative of the mean loss with respect to 1 / temperature.
struct Slope {
  double first = 0, second = 0;
};

Slope slope_at(const LabelledLogits& images, double inverse) {
  const size_t n = images.labels.size(), classes = images.logits.size() / n;
  Slope sum;
  for (size_t i = 0; i < n; ++i) {
    const auto z = std::span(images.logits).subspan(i * classes, classes);
    const double largest = *std::ranges::max_element(z);
    double weights = 0, mean = 0, square = 0;
    for (const float x : z) {  // relative to the largest, so that squares lose no digits
      const double d = x - largest, w = std::exp(inverse * d);
      if (w == 0) continue;  // d may be infinite
      weights += w;
      mean += w * d;
      square += w * d * d;
    }
    mean /= weights;
    sum.first += mean - (z[static_cast<size_t>(images.labels[i])] - largest);
    sum.second += square / weights - mean * mean;
  }
  return {sum.first / static_cast<double>(n), sum.second / static_cast<double>(n)};
}

}  // namespace

std::vector<double> probabilities(std::span<const float> logits, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> p;
  double sum = 0;
  for (const float z : logits) sum += p.emplace_back(std::exp((z - largest) / temperature));
  for (double& x : p) x /= sum;
  return p;
}

double loss_at(std::span<const float> logits, int32_t label, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float z : logits) sum += std::exp((z - largest) / temperature);
  return std::log(sum) + (largest - logits[static_cast<size_t>(label)]) / temperature;
}

void CalibrationError::add(double probability, bool correct) {
  const size_t up_to = probability > 0 ? static_cast<size_t>(std::ceil(std::min(probability, 1.0) * kBins)) : 1;
  Bin& bin = bins_[up_to - 1];
  bin.probability += probability;
  ++bin.images;
  bin.correct += correct;
}

double CalibrationError::value() const {
  double distance = 0;
  int64_t images = 0;
  for (const Bin& bin : bins_) {
    distance += std::abs(static_cast<double>(bin.correct) - bin.probability);
    images += bin.images;
  }
  return images > 0 ? distance / static_cast<double>(images) : 0;
}

/// The loss is convex in 1 / temperature: Newton's steps, or the middle of the bracket where they leave it.
double fit_temperature(const LabelledLogits& images) {
  double low = 1 / kHottest, high = 1 / kColdest;
  if (images.labels.empty() || slope_at(images, low).first >= 0) return kHottest;
  if (slope_at(images, high).first <= 0) return kColdest;
  double inverse = 1;
  for (int i = 0; i < 100; ++i) {
    const Slope slope = slope_at(images, inverse);
    const double step = slope.first / slope.second;
    if (std::abs(step) <= 1e-12 * inverse) break;
    (slope.first < 0 ? low : high) = inverse;
    inverse -= step;
    if (!(inverse > low && inverse < high)) inverse = std::sqrt(low * high);
  }
  return 1 / inverse;
}

}  // namespace ct
