// Dropout: zeros where a mask says so, which is drawn on the way (graph/dropout_key.h) and kept nowhere.
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
  uint32_t below;  // of 65536 numbers, those that keep an element
  float scale;
  const T* x;
  T* y;
};
void dropout(const DropoutArgs<float>& args);
void dropout(const DropoutArgs<uint16_t>& args);

}  // namespace ct::cpu
