// What is told of the loss scale of fp16 training.
#pragma once

#include <string>
#include <vector>

#include "graph/loss_scale.h"

namespace ct {

/// How the scale begins and moves: "dynamic loss scale from 65536, ...".
std::string describe(const LossScaleOptions& options);

/// What an overflow made of the scale: "Attempted loss scale: 65536, reducing to 32768".
std::string overflow_text(const LossScaleOptions& options, const LossScaleState& before, const LossScaleState& after);

/// What DeepSpeed prints of a step (runtime/zero/stage_1_and_2.py, and runtime/fp16/fused_optimizer.py for the scale
/// without hysteresis), a line each; of most steps nothing.
std::vector<std::string> deepspeed_lines(const LossScaleOptions& options, const LossScaleState& before,
                                         const LossScaleState& after, bool overflow);

/// DeepSpeed's last words.
inline constexpr const char* kScaleAtItsMinimum =
    "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.";

}  // namespace ct
