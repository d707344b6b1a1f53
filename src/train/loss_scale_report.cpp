#include "train/loss_scale_report.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace ct {

std::string scale_text(double scale) { return scale < 1 ? fmt::format("{:g}", scale) : fmt::format("{:.0f}", scale); }

std::string describe(const LossScaleOptions& options) {
  if (!options.dynamic) return "loss scale " + scale_text(options.initial);
  const std::string falls = options.without_hysteresis ? "every overflow" : counted(options.hysteresis, "overflow");
  return str("dynamic loss scale from ", scale_text(options.initial), ", halved at ", falls, " down to ",
             scale_text(options.min), ", doubled after ", counted(options.window, "step"), " without any");
}

std::string overflow_text(const LossScaleOptions& options, const LossScaleState& before, const LossScaleState& after) {
  if (!options.dynamic) return "the loss scale stays " + scale_text(before.scale);
  const std::string attempted = "Attempted loss scale: " + scale_text(before.scale);
  if (after.hysteresis_left < before.hysteresis_left)
    return str(attempted, ", but hysteresis is ", before.hysteresis_left, ". Reducing hysteresis to ",
               after.hysteresis_left);
  return attempted + ", reducing to " + scale_text(after.scale);
}

}  // namespace ct
