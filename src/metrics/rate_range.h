// A learning-rate range test (Smith, "Cyclical Learning Rates for Training Neural Networks", 2017): the loss of a short
// run whose rate rises exponentially.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ct {

struct RatePoint {
  double rate = 0, loss = 0;  // of one step
};

/// The losses of a test of `steps` steps as an exponential moving average over about a tenth of them, corrected for its
/// start.
std::vector<RatePoint> smoothed(std::span<const RatePoint> points, int64_t steps);

/// Has the smoothed loss become non-finite or four times the lowest one? The test ends there.
bool has_diverged(std::span<const RatePoint> smooth);

/// The rate at which the smoothed loss falls most per factor of the rate, and the one with the lowest loss. `rate` is
/// the steepest or, if that is lower, a tenth of the lowest: where single losses are noisy, the two are close together,
/// and both too high. nullopt: the loss never falls clearly, which is three times its noise at the lowest rates, or
/// there are fewer than 10 points.
struct RateSuggestion {
  double steepest = 0, lowest = 0;
  double rate = 0;
};
std::optional<RateSuggestion> suggest_rate(std::span<const RatePoint> smooth);

/// Loss against the logarithm of the rate, as lines of text at most 80 columns wide; `marked` is the rate in the row of
/// marks. Losses above that of the first point are cut off.
std::vector<std::string> picture(std::span<const RatePoint> smooth, std::optional<double> marked);

}  // namespace ct
