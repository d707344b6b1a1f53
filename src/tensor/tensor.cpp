#include "tensor/tensor.h"

#include "base/error.h"

namespace ct {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  fail(ExitCode::bug, "unknown dtype");
}

std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "f16", "u8", "i32"};
  return kNames[static_cast<size_t>(dtype)];
}

Shape::Shape(std::initializer_list<int64_t> dims) {
  check(dims.size() <= dims_.size(), "a shape has at most four dimensions");
  for (int64_t d : dims) dims_[static_cast<size_t>(rank_++)] = d;
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= (*this)[i];
  return n;
}

int64_t Shape::rows() const {
  int64_t n = 1;
  for (int i = 0; i + 1 < rank_; ++i) n *= (*this)[i];
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace ct
