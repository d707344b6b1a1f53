// Operands of kernel tests, in memory of the device and the host's copy of it. A launch on the null stream is complete
// when it returns, on the host's stand-in (on_host/) as on a GPU (on_gpu/). data() is the device's, for kernels alone;
// everything else is the host's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "element.h"
#include "kernel_memory.h"
#include "tickets.h"

namespace ct::kernels {

/// What a kernel reads without guards around it: a read outside is memory checkers' to see.
template <class T>
class Operand : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  /// With the elements as they are now; null: there is none.
  T* data() const {
    if (this->empty()) return nullptr;
    const size_t bytes = this->size() * sizeof(T);
    if (!memory_ || memory_.use_count() > 1 || bytes != bytes_)
      memory_ = std::make_shared<KernelMemory>(bytes_ = bytes);
    std::memcpy(memory_->write(), std::vector<T>::data(), bytes);
    return static_cast<T*>(memory_->device());
  }

 private:
  mutable std::shared_ptr<KernelMemory> memory_;
  mutable size_t bytes_ = 0;
};

/// 16-byte aligned, full of NaN until something is written, with guards that must stay intact.
template <class T>
class Buffer {
 public:
  /// `shift`: elements by which the data misses 16-byte alignment.
  explicit Buffer(size_t n, size_t shift = 0)
      : n_(n), begin_(kGuard + shift), all_(begin_ + n + kGuard), memory_(std::max(all_, size_t{1}) * sizeof(T)) {
    std::memset(memory_.write(), 0xff, all_ * sizeof(T));
  }
  explicit Buffer(const std::vector<float>& values, size_t shift = 0) : Buffer(values.size(), shift) {
    for (size_t i = 0; i < n_; ++i) at(i) = from<T>(values[i]);
  }
  ~Buffer() { EXPECT_TRUE(intact()) << "written outside"; }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return static_cast<T*>(memory_.device()) + begin_; }
  size_t size() const { return n_; }
  float operator[](size_t i) const { return to<T>(host()[begin_ + i]); }
  T& at(size_t i) { return written()[begin_ + i]; }
  std::vector<float> values() const {
    std::vector<float> v(n_);
    for (size_t i = 0; i < n_; ++i) v[i] = (*this)[i];
    return v;
  }
  /// Bytes as they are: for results that must be the same to the bit.
  std::vector<unsigned char> bytes() const {
    const auto* at = reinterpret_cast<const unsigned char*>(host() + begin_);
    return {at, at + n_ * sizeof(T)};
  }
  bool intact() const {
    const auto untouched = [&](size_t from, size_t until) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(host());
      for (size_t i = from * sizeof(T); i < until * sizeof(T); ++i)
        if (bytes[i] != 0xff) return false;
      return true;
    };
    return untouched(0, begin_) && untouched(begin_ + n_, all_);
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
  static constexpr size_t kGuard = 64 / sizeof(T) * 4;
  const T* host() const { return reinterpret_cast<const T*>(memory_.read()); }
  T* written() { return reinterpret_cast<T*>(memory_.write()); }
  size_t n_, begin_, all_;
  KernelMemory memory_;
};

/// Tickets as every kernel finds and leaves them.
class Tickets : public Buffer<unsigned> {
 public:
  Tickets() : Buffer(std::vector<float>(kTickets)) {}
  ~Tickets() {
    for (size_t i = 0; i < size(); ++i) EXPECT_EQ(at(i), 0u);
  }
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
