// Element types, shapes and views. A Tensor never owns its memory: the engine plans it, the backend allocates it.
//
// Storage: rank 1 and 4 are contiguous. Rows of rank 2 ([rows][features]: activations and weights of linear layers) are
// padded to a multiple of kRowPad elements, so that every row starts on a cache line; pads are always zero. Rank 3
// ([N][T][C]: T tokens of each picture) is stored as [N*T][C]. Images are planar [N][C][H][W], as on disk; every other
// rank-4 activation is [N][H][W][C].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ct {

enum class DType : uint8_t { f32, f64, bf16, f16, u8, i32 };
size_t size_of(DType dtype);
std::string_view name_of(DType dtype);

inline constexpr int64_t kRowPad = 16;
inline constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Up to four dimensions.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  /// Logical elements, without padding.
  int64_t numel() const;
  /// Rows of the last dimension; a vector is one.
  int64_t rows() const;
  /// Elements of a row, without padding.
  int64_t columns() const { return rank_ == 0 ? 1 : dims_[static_cast<size_t>(rank_ - 1)]; }
  /// Elements between the begins of adjacent rows.
  int64_t stride() const { return rank_ == 2 || rank_ == 3 ? round_up(columns(), kRowPad) : columns(); }
  /// Elements that the storage occupies, with the padding of rows.
  int64_t stored() const { return rows() * stride(); }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, 4> dims_{};
  int rank_ = 0;
};
std::string to_string(const Shape& shape);

struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace ct
