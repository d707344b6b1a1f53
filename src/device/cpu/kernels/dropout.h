// Dropout. The kernel draws the mask from counters (graph/dropout_key.h) and does not store it.
#pragma once

#include <cstdint>

#include "graph/dropout_key.h"

namespace ct::cpu {

/// y = x * scale where the mask keeps an element, else 0; y may be x. uint16_t is bf16.
template <class T>
struct DropoutArgs {
  int64_t n;
  const DropoutKey* key;
  int number;
  uint32_t below;  // the number of 65536 values that keep an element
  float scale;
  const T* x;
  T* y;
};
void dropout(const DropoutArgs<float>& args);
void dropout(const DropoutArgs<uint16_t>& args);

}  // namespace ct::cpu
