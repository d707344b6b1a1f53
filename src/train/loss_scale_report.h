// What is told of the loss scale of fp16 training.
#pragma once

#include <string>

#include "graph/loss_scale.h"

namespace ct {

/// Scales are powers of two, which may be large: no exponents.
std::string scale_text(double scale);

/// How the scale begins and moves: "dynamic loss scale from 65536, ...".
std::string describe(const LossScaleOptions& options);

/// What an overflow made of the scale: "Attempted loss scale: 65536, reducing to 32768".
std::string overflow_text(const LossScaleOptions& options, const LossScaleState& before, const LossScaleState& after);

}  // namespace ct
