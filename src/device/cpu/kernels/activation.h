// Activations and their gradients, element by element. Elements are float or bf16 (uint16_t), computed in f32 and
// rounded once, to nearest even. NaN stays NaN. A result may overwrite an operand.
#pragma once

#include <cstdint>

#include "graph/activation.h"

namespace ct::cpu {

/// y = activation(x).
void activate(Activation activation, const float* x, float* y, int64_t n);
void activate(Activation activation, const uint16_t* x, uint16_t* y, int64_t n);

/// dx = dy activation'(x). For activations that is_fused(), x is the activation's result.
void activation_grad(Activation activation, const float* x, const float* dy, float* dx, int64_t n);
void activation_grad(Activation activation, const uint16_t* x, const uint16_t* dy, uint16_t* dx, int64_t n);

}  // namespace ct::cpu
