// Probabilities from logits, and how far they can be trusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ct {

/// softmax(logits / temperature), in f64.
std::vector<double> probabilities(std::span<const float> logits, double temperature = 1);

/// The cross entropy of softmax(logits / temperature).
double loss_at(std::span<const float> logits, int32_t label, double temperature);

/// The first largest value: the class that is answered.
template <class Values>
int32_t answer_in(const Values& values) {
  int32_t best = 0;
  for (size_t c = 1; c < values.size(); ++c)
    if (values[c] > values[static_cast<size_t>(best)]) best = static_cast<int32_t>(c);
  return best;
}

/// The expected calibration error: answers are sorted by their probability into 15 bins of one width, of which each
/// includes its upper end; the mean over images of the distance between a bin's accuracy and its mean probability.
class CalibrationError {
 public:
  static constexpr size_t kBins = 15;
  struct Bin {
    double probability = 0;  // the sum
    int64_t images = 0, correct = 0;
  };

  void add(double probability, bool correct);
  double value() const;
  const std::array<Bin, kBins>& bins() const { return bins_; }

 private:
  std::array<Bin, kBins> bins_;
};

/// The logits of labelled images.
struct LabelledLogits {
  std::vector<float> logits;  // `labels.size()` rows
  std::vector<int32_t> labels;
};
/// The temperature for which the mean loss of softmax(logits / temperature) is lowest. Where the loss falls on without
/// an end, as it does if all answers are right, one of the limits.
inline constexpr double kColdest = 0.01, kHottest = 100;
double fit_temperature(const LabelledLogits& images);

}  // namespace ct
