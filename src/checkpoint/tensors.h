// Stored tensors: by name, in PyTorch's layout (row-major, no padding, little-endian), independent of the engine's
// layout, sharding and padding. None of these types owns the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

/// Element types of files, more than the engine's types (PyTorch counts batches in I64).
enum class StoredType : uint8_t { f32, f64, f16, bf16, u8, i32, i64 };
size_t size_of(StoredType type);
/// safetensors' names: "F32" …
std::string_view name_of(StoredType type);
std::optional<StoredType> stored_type(std::string_view name);

/// A tensor's description, before its elements are known.
struct TensorSpec {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
};

struct TensorView {
  std::string name;
  StoredType dtype = StoredType::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // may be unaligned
};

/// Bytes of a tensor; nullopt if a dimension is negative or the product does not fit into 64 bits.
std::optional<uint64_t> bytes_of(StoredType type, std::span<const int64_t> shape);
/// The number of rows, that is, the first dimension; a tensor without dimensions is one row.
int64_t rows_of(std::span<const int64_t> shape);
uint64_t row_bytes(StoredType type, std::span<const int64_t> shape);
/// "F32 [6, 3, 5, 5]"
std::string describe(const TensorView& tensor);
/// The index of element i: "[3, 0, 17]".
std::string place_of(std::span<const int64_t> shape, uint64_t i);
/// Element i of a tensor as a double (an I64 beyond 2^53 is rounded).
double element(const TensorView& tensor, size_t i);
/// Is there neither an infinity nor a NaN among these elements?
bool all_finite(StoredType type, std::span<const std::byte> elements);

/// F32, F64, F16, BF16: the types that can be converted to f32.
bool is_float(StoredType type);
/// Converts elements of such a type to f32, rounded to nearest. Returns the first element that is finite but too large
/// for f32.
std::optional<size_t> to_f32(StoredType type, std::span<const std::byte> from, std::span<float> to);

}  // namespace ct
