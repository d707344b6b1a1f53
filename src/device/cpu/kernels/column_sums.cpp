#include "device/cpu/kernels/column_sums.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/column_sums.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr int kBlock = 8;     // vectors of columns whose sums stay in registers
constexpr int64_t kRun = 64;  // rows that are summed in f32

template <int Vectors, class DV, class T>
HWY_INLINE void sum_block(DV dv, const T* x, int64_t rows, int64_t stride, float* sums) {
  constexpr int kStep = static_cast<int>(hn::MaxLanes(DV())), kColumns = Vectors * kStep;
  double all[kColumns] = {};
  alignas(64) float run[kColumns];
  for (int64_t begin = 0; begin < rows; begin += kRun) {
    hn::Vec<DV> sum[Vectors];
    unroll<Vectors>([&](auto v) CT_UNROLLED { sum[v] = hn::Zero(dv); });
    const int64_t end = std::min(rows, begin + kRun);
    for (int64_t r = begin; r < end; ++r)
      unroll<Vectors>([&](auto v) CT_UNROLLED { sum[v] = hn::Add(sum[v], load(dv, x + r * stride + v * kStep)); });
    unroll<Vectors>([&](auto v) CT_UNROLLED { hn::StoreU(sum[v], dv, run + v * kStep); });
    for (int c = 0; c < kColumns; ++c) all[c] += static_cast<double>(run[c]);
  }
  for (int c = 0; c < kColumns; ++c) sums[c] = static_cast<float>(all[c]);
}

template <class T>
HWY_INLINE void column_sums_of(const T* x, int64_t rows, int64_t columns, int64_t stride, float* sums) {
  int64_t c = 0;
  for (; c + kBlock * kLanes <= columns; c += kBlock * kLanes) sum_block<kBlock>(d, x + c, rows, stride, sums + c);
  for (; c + kLanes <= columns; c += kLanes) sum_block<1>(d, x + c, rows, stride, sums + c);
  for (; c < columns; ++c) sum_block<1>(hn::CappedTag<float, 1>(), x + c, rows, stride, sums + c);
}

void ColumnSums(const float* x, int64_t rows, int64_t columns, int64_t stride, float* sums) {
  column_sums_of(x, rows, columns, stride, sums);
}
void ColumnSumsBf16(const uint16_t* x, int64_t rows, int64_t columns, int64_t stride, float* sums) {
  column_sums_of(x, rows, columns, stride, sums);
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(ColumnSums);
HWY_EXPORT(ColumnSumsBf16);

void column_sums(const float* x, int64_t rows, int64_t columns, int64_t stride, float* sums) {
  HWY_DYNAMIC_DISPATCH(ColumnSums)(x, rows, columns, stride, sums);
}
void column_sums(const uint16_t* x, int64_t rows, int64_t columns, int64_t stride, float* sums) {
  HWY_DYNAMIC_DISPATCH(ColumnSumsBf16)(x, rows, columns, stride, sums);
}
}  // namespace ct::cpu
#endif
