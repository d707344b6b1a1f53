// Small tensors with every type, for tests.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/checks.h"
#include "base/error.h"
#include "checkpoint/tensors.h"

namespace ct {

class Samples {
 public:
  explicit Samples(uint32_t seed = 1) : random_(seed) {
    add("conv1.weight", StoredType::f32, {6, 3, 5, 5});
    add("conv1.bias", StoredType::f32, {6});
    add("bn.num_batches_tracked", StoredType::i64, {});
    add("half", StoredType::f16, {3});
    add("empty", StoredType::f64, {0, 4});
    add("b16", StoredType::bf16, {2, 2});
    add("bytes", StoredType::u8, {5});
    add("ints", StoredType::i32, {2});
  }
  void add(const std::string& name, StoredType type, const std::vector<int64_t>& shape) {
    data_.emplace_back(*bytes_of(type, shape));
    auto& bytes = data_.back();
    for (std::byte& b : bytes) b = std::byte(random_());
    if (type == StoredType::f16 || type == StoredType::bf16)
      for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= std::byte{0xbf};  // finite: not all of the exponent
    for (size_t i = 0; type == StoredType::f32 && i + 4 <= bytes.size(); i += 4) {
      const float x = static_cast<float>(random_() % 2001) / 1000 - 1;
      std::memcpy(&bytes[i], &x, 4);
    }
    tensors_.push_back({name, type, shape, bytes});
  }
  const std::vector<TensorView>& views() const { return tensors_; }

 private:
  std::mt19937 random_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<TensorView> tensors_;
};

inline bool same(const TensorView& a, const TensorView& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.data.size() == b.data.size() &&
         std::equal(a.data.begin(), a.data.end(), b.data.begin());
}

}  // namespace ct
