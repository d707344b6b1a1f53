// Products of matrices that fit into the L1 and L2 caches: c = a b, with lanes along the columns of b and c. Compiled
// once per instruction set (no #pragma once by design); include after simd-inl.h.
#if defined(CT_SMALL_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CT_SMALL_PRODUCT_INL_H_
#undef CT_SMALL_PRODUCT_INL_H_
#else
#define CT_SMALL_PRODUCT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

/// c[i][j] = sum over k < depth of a(i, k) * b[k][j], for i < rows and j < vectors * kLanes. a(i, k) is a[i][k], or
/// a[k][i] if a is transposed.
struct SmallProduct {
  int64_t rows, depth, vectors;
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;  // of rows; for panels (transpose_to_panels): their depth
  float* c;
  int64_t c_stride;
};
enum class RightSide : uint8_t { rows, panels };

// A block of c stays in registers. Its number of rows leaves registers for a row of b.
constexpr int kMostVectors = kWide ? 5 : 3;
constexpr int rows_of_block(int vectors) {
  constexpr int kRows[] = {0, kWide ? 12 : 8, kWide ? 12 : 6, kWide ? 8 : 4, 6, 5};
  return kRows[vectors];
}

template <int Rows, int Vectors, bool Transposed, bool Adds>
HWY_NOINLINE void product_block(int64_t depth, const float* HWY_RESTRICT a, int64_t a_stride,
                                const float* HWY_RESTRICT b, int64_t b_stride, float* HWY_RESTRICT c,
                                int64_t c_stride) {
  V sum[Rows][Vectors];
  unroll<Rows * Vectors>([&](auto i) CT_UNROLLED {
    sum[i / Vectors][i % Vectors] =
        Adds ? hn::LoadU(d, c + i / Vectors * c_stride + i % Vectors * kLanes) : hn::Zero(d);
  });
  for (int64_t k = 0; k < depth; ++k, b += b_stride) {
    V right[Vectors];
    unroll<Vectors>([&](auto v) CT_UNROLLED { right[v] = hn::LoadU(d, b + v * kLanes); });
    unroll<Rows>([&](auto r) CT_UNROLLED {
      const V left = hn::Set(d, Transposed ? a[k * a_stride + r] : a[r * a_stride + k]);
      unroll<Vectors>([&](auto v) CT_UNROLLED { sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]); });
    });
  }
  unroll<Rows * Vectors>([&](auto i) CT_UNROLLED {
    hn::StoreU(sum[i / Vectors][i % Vectors], d, c + i / Vectors * c_stride + i % Vectors * kLanes);
  });
}

/// Calls body(std::integral_constant<int, Vectors>, column) for blocks of nearly equal size.
template <class Body>
HWY_INLINE void for_blocks_of_columns(int64_t vectors, Body&& body) {
  int64_t blocks = (vectors + kMostVectors - 1) / kMostVectors;
  for (int64_t column = 0; blocks > 0; --blocks) {
    const int64_t width = (vectors + blocks - 1) / blocks;
    unroll<kMostVectors>([&](auto v) CT_UNROLLED {
      if (width == v + 1) body(std::integral_constant<int, v + 1>(), column);
    });
    vectors -= width;
    column += width * kLanes;
  }
}

/// c += the product.
template <RightSide Right, bool Transposed = false, bool Adds = false>
HWY_INLINE void small_product(const SmallProduct& p) {
  for_blocks_of_columns(p.vectors, [&](auto vectors, int64_t column) HWY_ATTR {
    constexpr int kVectors = decltype(vectors)::value, kRows = rows_of_block(kVectors);
    constexpr bool kPanels = Right == RightSide::panels;
    const float* b = p.b + (kPanels ? p.b_stride * column : column);
    const auto block = [&](auto rows, int64_t i) HWY_ATTR {
      product_block<decltype(rows)::value, kVectors, Transposed, Adds>(
          p.depth, p.a + (Transposed ? i : i * p.a_stride), p.a_stride, b, kPanels ? kVectors * kLanes : p.b_stride,
          p.c + i * p.c_stride + column, p.c_stride);
    };
    int64_t i = 0;
    for (; i + kRows <= p.rows; i += kRows) block(std::integral_constant<int, kRows>(), i);
    if (i == p.rows) return;
    if (Adds || p.rows < kRows)
      for (; i < p.rows; ++i) block(std::integral_constant<int, 1>(), i);
    else  // recomputes some rows, with the same results
      block(std::integral_constant<int, kRows>(), p.rows - kRows);
  });
}

#if HWY_TARGET != HWY_SCALAR
/// Stores the 128-bit blocks of v, `stride` apart.
template <class DV>
HWY_INLINE void store_blocks(DV dv, hn::Vec<DV> v, float* to, int64_t stride) {
  if constexpr (hn::MaxLanes(DV()) > 4) {
    const hn::Half<DV> half;
    store_blocks(half, hn::LowerHalf(half, v), to, stride);
    store_blocks(half, hn::UpperHalf(half, v), to + static_cast<int64_t>(hn::MaxLanes(DV())) / 8 * stride, stride);
  } else {
    hn::StoreU(v, dv, to);
  }
}
#endif

/// Transposes four rows of kLanes columns: column j goes to `to + j * stride`.
HWY_INLINE void transpose_four(V v0, V v1, V v2, V v3, float* to, [[maybe_unused]] int64_t stride) {
#if HWY_TARGET == HWY_SCALAR
  to[0] = hn::GetLane(v0), to[1] = hn::GetLane(v1), to[2] = hn::GetLane(v2), to[3] = hn::GetLane(v3);
#else
  const hn::Repartition<uint64_t, D> d64;
  const auto a = hn::BitCast(d64, hn::InterleaveLower(d, v0, v1)), b = hn::BitCast(d64, hn::InterleaveLower(d, v2, v3));
  const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, v0, v1)), f = hn::BitCast(d64, hn::InterleaveUpper(d, v2, v3));
  store_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, a, b)), to, 4 * stride);
  store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), to + stride, 4 * stride);
  store_blocks(d, hn::BitCast(d, hn::InterleaveLower(d64, e, f)), to + 2 * stride, 4 * stride);
  store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, e, f)), to + 3 * stride, 4 * stride);
#endif
}

/// Transposes x [rows][columns] to the right operand [columns][rows] of a product, as panels: each has the width of a
/// block of columns and `depth` rows. depth is a multiple of 16 and at least `columns`. The rows that fill the last
/// vector are zero. x is read up to the multiple of kLanes after its columns.
template <class T>
HWY_INLINE void transpose_to_panels(const T* x, int64_t stride, int64_t rows, int64_t columns, float* panels,
                                    int64_t depth) {
  for_blocks_of_columns((rows + kLanes - 1) / kLanes, [&](auto vectors, int64_t first) HWY_ATTR {
    constexpr int64_t kWidth = decltype(vectors)::value * kLanes;
    float* panel = panels + depth * first;
    if constexpr (kWidth % 4 == 0) {
      for (int64_t r = 0; r < kWidth; r += 4)
        for (int64_t c = 0; c < columns; c += kLanes) {
          const auto row = [&](int64_t i) HWY_ATTR {
            return first + i < rows ? load(d, x + (first + i) * stride + c) : hn::Zero(d);
          };
          transpose_four(row(r), row(r + 1), row(r + 2), row(r + 3), panel + c * kWidth + r, kWidth);
        }
    } else {
      for (int64_t r = 0; r < kWidth; ++r)
        for (int64_t c = 0; c < columns; ++c)
          panel[c * kWidth + r] = first + r < rows ? hn::GetLane(load(d, x + (first + r) * stride + c)) : 0.0f;
    }
  });
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
