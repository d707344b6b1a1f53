// The messages about the loss scale of fp16 training.
#pragma once

#include <string>

#include "graph/loss_scale.h"

namespace ct {

/// The text of a scale. Scales are powers of two, which may be large, so the text has no exponent.
std::string scale_text(double scale);

/// The initial scale and its rules: "dynamic loss scale from 65536, ...".
std::string describe(const LossScaleOptions& options);

/// The effect of an overflow on the scale: "Attempted loss scale: 65536, reducing to 32768".
std::string overflow_text(const LossScaleOptions& options, const LossScaleState& before, const LossScaleState& after);

}  // namespace ct
