// A Pack as its bits, for kernels that hold many: the compiler would keep each element of 16 bits in a register of its
// own.
#pragma once

#include <cstring>
#include <type_traits>

#include "element.h"

namespace ct::kernels {

using Bits = Pack<uint32_t>;
template <class T>
__device__ __forceinline__ Bits bits_of(const Pack<T>& pack) {
  Bits bits;
  memcpy(&bits, &pack, sizeof bits);
  return bits;
}

template <class T>
__device__ __forceinline__ void to_floats(const Bits& bits, float (&to)[Pack<T>::kSize]) {
  constexpr int kEach = sizeof(uint32_t) / sizeof(T);
#pragma unroll
  for (int j = 0; j < Bits::kSize; ++j) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {  // the upper half of a float
      to[2 * j] = __int_as_float(static_cast<int>(bits.at[j] << 16));
      to[2 * j + 1] = __int_as_float(static_cast<int>(bits.at[j] & 0xffff0000u));
    } else {
      T elements[kEach];
      memcpy(elements, &bits.at[j], sizeof elements);
      for (int k = 0; k < kEach; ++k) to[kEach * j + k] = to_float(elements[k]);
    }
  }
}

}  // namespace ct::kernels
