// Operands of kernel tests, in memory that host and kernels see alike. A launch on the null stream is complete when it
// returns, on the host's stand-in (on_host/) as on a GPU (on_gpu/).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "element.h"
#include "kernel_memory.h"

namespace ct::kernels {

/// What a kernel reads without guards around it: a read outside is memory checkers' to see.
template <class T>
using Operand = std::vector<T, KernelMemory<T>>;

/// 16-byte aligned, full of NaN until something is written, with guards that must stay intact.
template <class T>
class Buffer {
 public:
  /// `shift`: elements by which the data misses 16-byte alignment.
  explicit Buffer(size_t n, size_t shift = 0) : n_(n), begin_(kGuard + shift), all_(begin_ + n + kGuard) {
    all_.fill(0xff);
  }
  explicit Buffer(const std::vector<float>& values, size_t shift = 0) : Buffer(values.size(), shift) {
    for (size_t i = 0; i < n_; ++i) data()[i] = from<T>(values[i]);
  }
  ~Buffer() { EXPECT_TRUE(intact()) << "written outside"; }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return all_.data() + begin_; }
  size_t size() const { return n_; }
  float operator[](size_t i) const { return to<T>(all_[begin_ + i]); }
  T& at(size_t i) { return all_[begin_ + i]; }
  std::vector<float> values() const {
    std::vector<float> v(n_);
    for (size_t i = 0; i < n_; ++i) v[i] = (*this)[i];
    return v;
  }
  /// Bytes as they are: for results that must be the same to the bit.
  std::vector<unsigned char> bytes() const {
    const auto* at = reinterpret_cast<const unsigned char*>(all_.data() + begin_);
    return {at, at + n_ * sizeof(T)};
  }
  bool intact() const {
    const auto untouched = [&](size_t from, size_t until) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(all_.data());
      for (size_t i = from * sizeof(T); i < until * sizeof(T); ++i)
        if (bytes[i] != 0xff) return false;
      return true;
    };
    return untouched(0, begin_) && untouched(begin_ + n_, all_.size());
  }

 private:
  template <class U>
  static U from(float x) {
    if constexpr (std::is_arithmetic_v<U>)
      return static_cast<U>(x);
    else
      return from_float<U>(x);
  }
  template <class U>
  static float to(U x) {
    if constexpr (std::is_arithmetic_v<U>)
      return static_cast<float>(x);
    else
      return to_float(x);
  }
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  static constexpr size_t kGuard = 64 / sizeof(T) * 4;
  /// A vector whose first element is aligned to 64 bytes.
  struct Storage {
    explicit Storage(size_t n) : lines((n * sizeof(T) + 63) / 64), n(n) {}
    T* data() { return reinterpret_cast<T*>(lines.data()); }
    const T* data() const { return reinterpret_cast<const T*>(lines.data()); }
    size_t size() const { return n; }
    void fill(unsigned char byte) {
      for (Line& line : lines) std::memset(line.bytes, byte, sizeof line.bytes);
    }
    T& operator[](size_t i) { return data()[i]; }
    const T& operator[](size_t i) const { return data()[i]; }
    Operand<Line> lines;
    size_t n;
  };
  size_t n_, begin_;
  Storage all_;
};

/// Values that differ from each other, some negative, for index i of operand `which`.
inline std::vector<float> numbers(size_t n, uint32_t which) {
  std::vector<float> v(n);
  uint32_t state = 2463534242u + 7919u * which;
  for (float& x : v) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    x = static_cast<float>(static_cast<int32_t>(state)) / 1073741824.0f;  // [-2, 2)
  }
  return v;
}

}  // namespace ct::kernels
