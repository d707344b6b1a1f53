// What the kernel tests share: a suite that runs once for every instruction set of this machine, aligned buffers with
// sentinels, random numbers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "hwy/targets.h"

namespace ct::cpu {

class KernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()), refresh(); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0), refresh(); }

 private:
  static void refresh() { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }
};

/// The instruction sets that kernels are compiled for (device/cpu/kernels/targets.h), where this machine has them.
inline std::vector<int64_t> machine_targets() {
  std::vector<int64_t> targets;
  for (int64_t target : {HWY_SCALAR, HWY_AVX2, HWY_AVX3, HWY_NEON})
    if (hwy::SupportedTargets() & target) targets.push_back(target);
  return targets;
}
#define CT_KERNEL_SUITE(Suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, testing::ValuesIn(ct::cpu::machine_targets()), \
                           [](const auto& info) { return std::string(hwy::TargetName(info.param)); })

/// A 64-byte aligned array filled with NaN (bytes 0xFF) between sentinels: whoever writes outside is found by intact().
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t n, size_t readable_past_end = 0)
      : n_(n), tail_(readable_past_end), bytes_((n + tail_) * sizeof(T) + 128) {
    data_ = static_cast<unsigned char*>(::operator new(bytes_, std::align_val_t(64)));
    std::memset(data_, 0xFF, bytes_);
    std::memset(data_, 0xA5, 64);
    std::memset(data_ + bytes_ - 64, 0xA5, 64);
  }
  template <class U>
  explicit Buffer(const std::vector<U>& values, size_t readable_past_end = 0)
      : Buffer(values.size(), readable_past_end) {
    for (size_t i = 0; i < n_; ++i) data()[i] = static_cast<T>(values[i]);
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t(64)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return reinterpret_cast<T*>(data_ + 64); }
  operator T*() { return data(); }  // also makes buffer[i] work
  size_t size() const { return n_; }
  bool intact() const {
    for (size_t i = 0; i < 64; ++i)
      if (data_[i] != 0xA5 || data_[bytes_ - 64 + i] != 0xA5) return false;
    return true;
  }

 private:
  size_t n_, tail_, bytes_;
  unsigned char* data_;
};

/// Normal numbers that float holds exactly, so that references in double see the kernels' inputs.
inline std::vector<double> normal(size_t n, uint32_t seed, double scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution(0, static_cast<float>(scale));
  std::vector<double> values(n);
  for (double& v : values) v = distribution(engine);
  return values;
}

/// Rows of `columns` to row stride `stride`, pads zero.
inline std::vector<double> with_stride(const std::vector<double>& dense, int64_t columns, int64_t stride) {
  std::vector<double> out(dense.size() / columns * stride);
  for (size_t i = 0; i < dense.size(); ++i) out[i / columns * stride + i % columns] = dense[i];
  return out;
}

/// Float rounding of a sum of `terms` products of size `magnitude`.
inline double tolerance(double terms, double magnitude) {
  return magnitude * (4 + std::sqrt(terms)) * 2 * std::numeric_limits<float>::epsilon();
}

}  // namespace ct::cpu
