#include "train/loss_scale_report.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace ct {
namespace {

/// Scales are powers of two, which may be large: no exponents.
std::string number(double scale) { return scale < 1 ? fmt::format("{:g}", scale) : fmt::format("{:.0f}", scale); }

}  // namespace

std::string describe(const LossScaleOptions& options) {
  if (!options.dynamic) return "loss scale " + number(options.initial);
  const std::string falls = options.without_hysteresis ? "every overflow" : counted(options.hysteresis, "overflow");
  return str("dynamic loss scale from ", number(options.initial), ", halved at ", falls, " down to ",
             number(options.min), ", doubled after ", counted(options.window, "step"), " without any");
}

std::string overflow_text(const LossScaleOptions& options, const LossScaleState& before, const LossScaleState& after) {
  if (!options.dynamic) return "the loss scale stays " + number(before.scale);
  const std::string attempted = "Attempted loss scale: " + number(before.scale);
  if (after.hysteresis_left < before.hysteresis_left)
    return str(attempted, ", but hysteresis is ", before.hysteresis_left, ". Reducing hysteresis to ",
               after.hysteresis_left);
  return attempted + ", reducing to " + number(after.scale);
}

std::vector<std::string> deepspeed_lines(const LossScaleOptions& options, const LossScaleState& before,
                                         const LossScaleState& after, bool overflow) {
  if (!options.dynamic) return {};
  const std::string from_to = str(" dynamic loss scale from ", number(before.scale), " to ", number(after.scale));
  if (!options.without_hysteresis) {
    if (!overflow) return {};
    return {"[deepspeed] OVERFLOW! Rank 0 Skipping step. " + overflow_text(options, before, after)};
  }
  if (overflow)
    return {str("Grad overflow on iteration ", before.step), "Reducing" + from_to,
            "Overflow detected. Skipping step. " + overflow_text(options, before, after)};
  if (after.scale <= before.scale) return {};
  return {str("No Grad overflow for ", options.window, " iterations"), "Increasing" + from_to};
}

}  // namespace ct
