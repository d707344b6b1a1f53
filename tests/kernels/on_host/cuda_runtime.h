// The subset of the CUDA runtime that kernels/ uses, executed on the host, block after block and every thread as a
// fiber: found by g++ in place of NVIDIA's header of the same name. See run.h for what is checked. What host code calls
// is declared in runtime_api.h and exists only where runtime.h's files are linked.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "run.h"
#include "runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#define threadIdx (::on_host::here().thread)
#define blockIdx (::on_host::here().block)
inline dim3 blockDim, gridDim;  // of the launch that runs; not macros, for cudaLaunchConfig_t has members of the names
constexpr int warpSize = 32;

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
union cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace on_host {
/// Set by the runtime's stand-in (runtime.h) where a program links it; without it there are no streams but the null
/// one, and kernels run at once.
struct KernelLaunch {
  std::function<void()> run;
  const void* function;  // the kernel's address
  const char* type;
  bool early;                   // may start before the previous kernel has ended
  std::vector<uint64_t> words;  // of its arguments: what may be an address in them
};
/// `configuration`: an error, or cudaSuccess.
using LaunchHook = cudaError_t (*)(cudaStream_t stream, cudaError_t configuration, KernelLaunch kernel);
inline LaunchHook launch_hook = nullptr;
/// Of tests: called with each launch; empty: nobody.
inline std::function<void(const KernelLaunch&)> launch_observer;

template <class... Parameters>
std::vector<uint64_t> words_of(const std::tuple<Parameters...>& arguments) {
  std::vector<uint64_t> words;
  const auto add = [&](auto argument) {
    __builtin_clear_padding(&argument);
    for (size_t at = 0; at + sizeof(uint64_t) <= sizeof argument; at += sizeof(uint64_t))
      std::memcpy(&words.emplace_back(), reinterpret_cast<const char*>(&argument) + at, sizeof(uint64_t));
  };
  std::apply([&](const auto&... each) { (add(each), ...); }, arguments);
  return words;
}
}  // namespace on_host

template <class... Parameters, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Args&&... args) {
  const uint64_t threads = uint64_t{config->blockDim.x} * config->blockDim.y * config->blockDim.z;
  const bool valid = threads > 0 && threads <= 1024 && config->dynamicSmemBytes <= 48 * 1024 &&
                     config->gridDim.y <= 65535 && config->gridDim.z <= 65535 && config->gridDim.x <= 0x7fffffffu;
  if (!valid && !on_host::launch_hook) return cudaErrorInvalidConfiguration;
  const auto values = std::tuple<Parameters...>(Parameters(args)...);
  const auto run = [kernel, grid = config->gridDim, block = config->blockDim, bytes = config->dynamicSmemBytes,
                    values] {
    blockDim = block;
    gridDim = grid;
    on_host::run(grid, block, bytes, [&] { std::apply(kernel, values); });
  };
  const on_host::KernelLaunch launch{run, reinterpret_cast<const void*>(kernel), typeid(kernel).name(),
                                     config->numAttrs > 0 && config->attrs->val.programmaticStreamSerializationAllowed,
                                     on_host::words_of(values)};
  if (on_host::launch_observer) on_host::launch_observer(launch);
  if (on_host::launch_hook)
    return on_host::launch_hook(config->stream, valid ? cudaSuccess : cudaErrorInvalidConfiguration, launch);
  run();
  return cudaSuccess;
}

// ---- vector types

#define ON_HOST_VECTORS(type, name, align2, align4) \
  struct alignas(align2) name##2 {                  \
    type x, y;                                      \
  };                                                \
  struct alignas(align4) name##4 {                  \
    type x, y, z, w;                                \
  };
ON_HOST_VECTORS(float, float, 8, 16)
ON_HOST_VECTORS(int, int, 8, 16)
ON_HOST_VECTORS(unsigned, uint, 8, 16)
ON_HOST_VECTORS(unsigned char, uchar, 2, 4)
#undef ON_HOST_VECTORS
struct alignas(16) double2 {
  double x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- barriers, shuffles, votes

#define __syncthreads() ::on_host::barrier(__FILE__, __LINE__)
inline void __syncwarp(unsigned mask = 0xffffffffu) { on_host::warp(on_host::WarpOp::sync, mask, 0, 0); }

namespace on_host {
template <class T>
T shuffle(WarpOp op, unsigned mask, T value, int lane, int width) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp(op, mask, bits, lane, width);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace on_host

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return on_host::shuffle(on_host::WarpOp::shuffle, mask, value, lane, width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return on_host::shuffle(on_host::WarpOp::shuffle_down, mask, value, static_cast<int>(delta), width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return on_host::shuffle(on_host::WarpOp::shuffle_up, mask, value, static_cast<int>(delta), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return on_host::shuffle(on_host::WarpOp::shuffle_xor, mask, value, lanes, width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(on_host::warp(on_host::WarpOp::ballot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }

// ---- atomics (relaxed, as on the device)

template <class T>
T atomicAdd(T* at, T value) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
  } else {
    T before, after;
    __atomic_load(at, &before, __ATOMIC_RELAXED);
    do after = before + value;
    while (!__atomic_compare_exchange(at, &before, &after, /*weak=*/false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return before;
  }
}
template <class T>
T atomicOr(T* at, T value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicExch(T* at, T value) {
  T before;
  __atomic_exchange(at, &value, &before, __ATOMIC_RELAXED);
  return before;
}
template <class T>
T atomicMax(T* at, T value) {
  T before = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (before < value &&
         !__atomic_compare_exchange_n(at, &before, value, /*weak=*/false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}

// ---- memory and arithmetic intrinsics

template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, T value) {
  *at = value;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __int_as_float(int x) {
  float y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline int __float_as_int(float x) {
  int y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
using std::isfinite;
using std::isnan;
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
