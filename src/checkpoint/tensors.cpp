#include "checkpoint/tensors.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/half.h"

namespace ct {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

constexpr std::pair<std::string_view, size_t> kTypes[] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"BF16", 2},
                                                          {"U8", 1},  {"I32", 4}, {"I64", 8}};

template <class T>
T read(const TensorView& tensor, size_t i) {
  T value;
  std::memcpy(&value, tensor.data.data() + i * sizeof(T), sizeof(T));
  return value;
}

float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

template <class T, class Convert>
void convert_all(std::span<const std::byte> from, std::span<float> to, Convert convert) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;  // may lie unaligned
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
    to[i] = convert(value);
  }
}

}  // namespace

size_t size_of(StoredType type) { return kTypes[static_cast<size_t>(type)].second; }
std::string_view name_of(StoredType type) { return kTypes[static_cast<size_t>(type)].first; }

std::optional<StoredType> stored_type(std::string_view name) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].first == name) return static_cast<StoredType>(i);
  }
  return std::nullopt;
}

std::optional<uint64_t> bytes_of(StoredType type, std::span<const int64_t> shape) {
  uint64_t bytes = size_of(type);
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return std::nullopt;
  }
  return bytes;
}

int64_t rows_of(std::span<const int64_t> shape) { return shape.empty() ? 1 : shape[0]; }

uint64_t row_bytes(StoredType type, std::span<const int64_t> shape) {
  return bytes_of(type, shape.empty() ? shape : shape.subspan(1)).value_or(0);
}

std::string describe(const TensorView& tensor) {
  return fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ", "));
}

std::string place_of(std::span<const int64_t> shape, uint64_t i) {
  std::string text = "]";
  for (size_t d = shape.size(); d-- > 0;) {
    const auto size = static_cast<uint64_t>(shape[d]);
    text = str(d > 0 ? ", " : "", i % size, text);
    i /= size;
  }
  return "[" + text;
}

double element(const TensorView& tensor, size_t i) {
  switch (tensor.dtype) {
    case StoredType::f32:
      return read<float>(tensor, i);
    case StoredType::f64:
      return read<double>(tensor, i);
    case StoredType::f16:
      return from_f16(read<uint16_t>(tensor, i));
    case StoredType::bf16:
      return from_bf16(read<uint16_t>(tensor, i));
    case StoredType::u8:
      return read<uint8_t>(tensor, i);
    case StoredType::i32:
      return read<int32_t>(tensor, i);
    case StoredType::i64:
      return static_cast<double>(read<int64_t>(tensor, i));
  }
  fail(ExitCode::bug, "unknown stored type");
}

namespace {

/// An exponent of all ones is an infinity or a NaN: adding one to it carries into the sign. Saving scans all that it
/// writes, so the loop is one that vectorises.
bool f32_all_finite(std::span<const std::byte> elements) {
  constexpr uint32_t kExponent = 0x7f800000, kOne = 0x00800000;
  uint32_t carried = 0;
  for (size_t at = 0; at < elements.size(); at += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, elements.data() + at, sizeof bits);
    carried |= (bits & kExponent) + kOne;
  }
  return carried >> 31 == 0;
}

}  // namespace

bool all_finite(StoredType type, std::span<const std::byte> elements) {
  if (type == StoredType::f32) return f32_all_finite(elements);
  const TensorView view{.dtype = type, .data = elements};
  for (size_t i = 0; i < elements.size() / size_of(type); ++i)
    if (!std::isfinite(element(view, i))) return false;
  return true;
}

bool is_float(StoredType type) {
  switch (type) {
    case StoredType::f32:
    case StoredType::f64:
    case StoredType::f16:
    case StoredType::bf16:
      return true;
    case StoredType::u8:
    case StoredType::i32:
    case StoredType::i64:
      return false;
  }
  fail(ExitCode::bug, "unknown stored type");
}

std::optional<size_t> to_f32(StoredType type, std::span<const std::byte> from, std::span<float> to) {
  check(is_float(type) && from.size() == to.size() * size_of(type), from.size(), " bytes are not ", to.size(), " ",
        name_of(type));
  switch (type) {
    case StoredType::f32:
      if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
      return std::nullopt;
    case StoredType::f16:
      convert_all<uint16_t>(from, to, from_f16);
      return std::nullopt;
    case StoredType::bf16:
      convert_all<uint16_t>(from, to, from_bf16);
      return std::nullopt;
    case StoredType::f64:
      break;
    case StoredType::u8:
    case StoredType::i32:
    case StoredType::i64:
      fail(ExitCode::bug, "internal error: ", name_of(type), " is not a float");
  }
  std::optional<size_t> too_large;
  size_t i = 0;
  convert_all<double>(from, to, [&](double x) {
    const auto rounded = static_cast<float>(x);
    if (std::isinf(rounded) && std::isfinite(x) && !too_large) too_large = i;
    ++i;
    return rounded;
  });
  return too_large;
}

}  // namespace ct
