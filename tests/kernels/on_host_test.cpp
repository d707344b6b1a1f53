// The host's execution of kernels (on_host/run.h) and its stand-ins for CUDA's headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffer.h"
#include "element.h"
#include "launch.h"
#include "mma.h"
#include "runtime.h"

namespace ct::kernels {
namespace {

using on_host::Options;

/// What the launch throws.
std::string error_of(void (*kernel)(), const Grid& grid) {
  try {
    launch(kernel, grid, nullptr);
  } catch (const on_host::Error& e) {
    return e.what();
  }
  return "no error";
}

std::string at_line(int line) { return "wait at the barrier on_host_test.cpp:" + std::to_string(line); }

// ---- threads and blocks

__global__ void write_places(int* y) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned n = blockDim.x * blockDim.y * blockDim.z;
  y[block * n + thread] = static_cast<int>(blockIdx.x * 100000 + blockIdx.y * 10000 + blockIdx.z * 1000 +
                                           threadIdx.x * 100 + threadIdx.y * 10 + threadIdx.z);
}

class OnHost : public testing::Test {
 protected:
  void SetUp() override { on_host::runtime_options().own_memory = true; }
  void TearDown() override { on_host::runtime_options() = {}; }
};

TEST_F(OnHost, EveryThreadOfThreeDimensionsRunsOnce) {
  on_host::in_all_orders([] {
    Buffer<int> y(2 * 3 * 4 * 5 * 6 * 7);
    ASSERT_EQ(launch(write_places, {{2, 3, 4}, {5, 6, 7}}, nullptr, y.data()), cudaSuccess);
    size_t i = 0;
    for (int bz = 0; bz < 4; ++bz)
      for (int by = 0; by < 3; ++by)
        for (int bx = 0; bx < 2; ++bx)
          for (int tz = 0; tz < 7; ++tz)
            for (int ty = 0; ty < 6; ++ty)
              for (int tx = 0; tx < 5; ++tx)
                ASSERT_EQ(y.at(i++), bx * 100000 + by * 10000 + bz * 1000 + tx * 100 + ty * 10 + tz);
  });
}

__global__ void note_order(int* counter, int* order) { order[atomicAdd(counter, 1)] = blockIdx.x * 64 + threadIdx.x; }

TEST_F(OnHost, OrdersDiffer) {
  std::vector<std::vector<int>> orders;
  on_host::in_all_orders([&] {
    int counter = 0;
    std::vector<int> order(128);
    launch(note_order, {2, 64}, nullptr, &counter, order.data());
    orders.push_back(order);
  });
  ASSERT_EQ(orders.size(), 5u);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(orders[0][i], i);
    EXPECT_EQ(orders[1][i], 127 - i);
  }
  for (size_t i = 0; i < orders.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(orders[i], orders[j]);
    std::sort(orders[i].begin(), orders[i].end());
    for (int k = 0; k < 128; ++k) ASSERT_EQ(orders[i][k], k);
  }
}

TEST_F(OnHost, OptionsAreRestored) {
  on_host::options().seed = 42;
  EXPECT_THROW(on_host::in_all_orders([] { throw std::runtime_error("x"); }), std::runtime_error);
  EXPECT_EQ(on_host::options().seed, 42u);
  EXPECT_EQ(on_host::options().order, Options::Order::forward);
  on_host::options() = {};
}

__global__ void change_argument(Pack<float> pack, float* y) {
  pack.at[0] += static_cast<float>(threadIdx.x);
  y[threadIdx.x] = pack.at[0];
}

TEST_F(OnHost, ArgumentsAreEachThreadsOwn) {
  Buffer<float> y(40);
  launch(change_argument, {1, 40}, nullptr, Pack<float>{{1, 2, 3, 4}}, y.data());
  for (int i = 0; i < 40; ++i) EXPECT_EQ(y[i], 1 + i);
}

__global__ void nothing() {}

TEST_F(OnHost, LaunchLimits) {
  EXPECT_EQ(launch(nothing, {0, 0}, nullptr), cudaSuccess);
  EXPECT_EQ(launch(nothing, {{1, 0, 1}, 32}, nullptr), cudaSuccess);
  EXPECT_EQ(launch(nothing, {1, 1024, 48 * 1024}, nullptr), cudaSuccess);
  EXPECT_EQ(launch(nothing, {1, 0}, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nothing, {1, 1025}, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nothing, {1, {32, 33}}, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nothing, {1, 32, 48 * 1024 + 1}, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nothing, {{1, 65536}, 32}, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nothing, {{1, 1, 65536}, 32}, nullptr), cudaErrorInvalidConfiguration);
}

__global__ void throw_in_thread() {
  if (threadIdx.x == 33) throw std::out_of_range("thrown in a kernel");
  __syncthreads();
}

TEST_F(OnHost, WhatAKernelThrowsComesOut) {
  EXPECT_THROW(launch(throw_in_thread, {2, 64}, nullptr), std::out_of_range);
  EXPECT_EQ(launch(nothing, {2, 64}, nullptr), cudaSuccess);
}

// ---- shared memory

__global__ void look_at_shared(unsigned char* y, size_t n, int* aligned) {
  const auto* shared = shared_memory<unsigned char>();
  for (size_t i = 0; i < n; ++i) y[blockIdx.x * n + i] = shared[i];
  aligned[blockIdx.x] = reinterpret_cast<uintptr_t>(shared) % 16 == 0;
  for (size_t i = 0; i < n; ++i) shared_memory<unsigned char>()[i] = 0;
}

TEST_F(OnHost, EveryBlocksSharedMemoryIsPoisonedAndAligned) {
  for (unsigned char poison : {0xff, 0x7b}) {
    on_host::options().poison = poison;
    for (size_t n : {1, 7, 100, 4097}) {
      std::vector<unsigned char> y(3 * n);
      int aligned[3] = {};
      launch(look_at_shared, {3, 1, n}, nullptr, y.data(), n, aligned);
      EXPECT_EQ(y, std::vector<unsigned char>(3 * n, poison));
      for (int is : aligned) EXPECT_TRUE(is);
    }
  }
  on_host::options() = {};
}

__global__ void exchange(const float* x, float* y, int rounds) {
  float* a = shared_memory<float>();
  float* b = shared_memory<float>(blockDim.x * sizeof(float));
  const unsigned i = threadIdx.x, n = blockDim.x;
  float value = x[blockIdx.x * n + i];
  for (int round = 0; round < rounds; ++round) {
    (round % 2 ? a : b)[i] = value;
    __syncthreads();
    value = (round % 2 ? a : b)[(i + 1) % n];
  }
  y[blockIdx.x * n + i] = value;
}

TEST_F(OnHost, BarriersOrderSharedMemory) {
  on_host::in_all_orders([] {
    constexpr int kThreads = 70, kBlocks = 3, kRounds = 5;
    Buffer<float> x(numbers(kThreads * kBlocks, 1)), y(kThreads * kBlocks);
    launch(exchange, {kBlocks, kThreads, 2 * kThreads * sizeof(float)}, nullptr, x.data(), y.data(), kRounds);
    for (int i = 0; i < kThreads * kBlocks; ++i)
      ASSERT_EQ(y[i], x[i / kThreads * kThreads + (i % kThreads + kRounds) % kThreads]);
  });
}

// ---- what is refused

constexpr int kDivergent = __LINE__ + 3;
__global__ void divergent() {
  if (threadIdx.x < 40) {
    __syncthreads();
  }
}

constexpr int kTwoBarriers = __LINE__ + 3;
__global__ void two_barriers() {
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_F(OnHost, BarrierThatNotAllThreadsReach) {
  on_host::in_all_orders([] {
    EXPECT_EQ(error_of(divergent, {1, 64}), "block (0, 0, 0): not all threads come: threads 0-39 " +
                                                at_line(kDivergent) + ", threads 40-63 have ended");
    EXPECT_EQ(error_of(two_barriers, {1, 7}), "block (0, 0, 0): not all threads come: threads 0-4 " +
                                                  at_line(kTwoBarriers + 2) + ", threads 5 " + at_line(kTwoBarriers) +
                                                  ", threads 6 " + at_line(kTwoBarriers + 2));
  });
}

__global__ void divergent_in_one_block() {
  if (blockIdx.x == 1 && blockIdx.y == 2 && threadIdx.x == 0) return;
  __syncthreads();
}

TEST_F(OnHost, ErrorNamesTheBlock) {
  EXPECT_EQ(error_of(divergent_in_one_block, {{3, 4}, 2}).substr(0, 26), "block (1, 2, 0): not all t");
}

__global__ void not_in_its_mask() { __syncwarp(0xfffffffe); }
__global__ void not_all_lanes_come() {
  if (threadIdx.x % 32 != 3) __syncwarp();
}
__global__ void different_masks() { __syncwarp(threadIdx.x < 16 ? 0xffffffffu : 0xffff0000u); }
__global__ void different_operations() {
  if (threadIdx.x < 16)
    __syncwarp();
  else
    __shfl_sync(kAllLanes, 1, 16);
}
__global__ void lanes_that_the_block_lacks() { __syncwarp(); }
__global__ void source_outside_the_mask() { __shfl_sync(1u << (threadIdx.x & 31), 1, 31); }
__global__ void width_of_three() { __shfl_sync(kAllLanes, 1, 0, 3); }
__global__ void barrier_and_warp() {
  if (threadIdx.x == 0)
    __syncthreads();
  else
    __syncwarp();
}

TEST_F(OnHost, WarpOperationsThatAreRefused) {
  EXPECT_EQ(error_of(not_in_its_mask, {1, 32}),
            "block (0, 0, 0): thread 0: __syncwarp: lane 0 is not in its mask 0xfffffffe");
  EXPECT_EQ(error_of(not_all_lanes_come, {1, 32}),
            "block (0, 0, 0): not all threads come: threads 0-2 wait in __syncwarp with mask 0xffffffff, "
            "threads 3 have ended, threads 4-31 wait in __syncwarp with mask 0xffffffff");
  EXPECT_EQ(error_of(different_masks, {1, 32}),
            "block (0, 0, 0): not all threads come: threads 0-15 wait in __syncwarp with mask 0xffffffff, "
            "threads 16-31 have ended");
  EXPECT_EQ(error_of(different_operations, {1, 32}),
            "block (0, 0, 0): not all threads come: threads 0-15 wait in __syncwarp with mask 0xffffffff, "
            "threads 16-31 wait in __shfl_sync with mask 0xffffffff");
  EXPECT_EQ(error_of(lanes_that_the_block_lacks, {1, 40}),
            "block (0, 0, 0): not all threads come: threads 0-31 have ended, "
            "threads 32-39 wait in __syncwarp with mask 0xffffffff");
  EXPECT_EQ(error_of(source_outside_the_mask, {1, 32}),
            "block (0, 0, 0): thread 0: __shfl_sync: lane 0 reads from lane 31, which is not in mask 0x00000001");
  EXPECT_EQ(error_of(width_of_three, {1, 32}),
            "block (0, 0, 0): thread 0: __shfl_sync: width 3 is no power of two up to 32");
  EXPECT_NE(error_of(barrier_and_warp, {1, 32}).find("not all threads come"), std::string::npos);
  EXPECT_EQ(launch(nothing, {2, 64}, nullptr), cudaSuccess);
}

// ---- shuffles and votes

__global__ void shuffles(int* y, int by, int width) {
  const int i = static_cast<int>(threadIdx.x);
  y[i] = __shfl_sync(kAllLanes, i, by, width);
  y[64 + i] = __shfl_up_sync(kAllLanes, i, by, width);
  y[128 + i] = __shfl_down_sync(kAllLanes, i, by, width);
  y[192 + i] = __shfl_xor_sync(kAllLanes, i, by, width);
}

TEST_F(OnHost, ShufflesOfAnyWidth) {
  on_host::in_all_orders([] {
    for (int width : {1, 2, 8, 32})
      for (int by : {0, 1, 3, 8, 31}) {
        Buffer<int> y(256);
        launch(shuffles, {1, 64}, nullptr, y.data(), by, width);
        for (int i = 0; i < 64; ++i) {
          const int group = i / width * width, in_group = i - group;
          ASSERT_EQ(y.at(i), group + by % width);
          ASSERT_EQ(y.at(64 + i), in_group < by ? i : i - by);
          ASSERT_EQ(y.at(128 + i), in_group + by >= width ? i : i + by);
          // Lanes of later groups are out of reach, those of earlier ones are not.
          ASSERT_EQ(y.at(192 + i), (i ^ by) >= group + width ? i : i ^ by);
        }
      }
  });
}

__global__ void shuffle_types(double* d, long long* l, float* f) {
  const unsigned i = threadIdx.x;
  d[i] = __shfl_xor_sync(kAllLanes, i + 0.5, 1);
  l[i] = __shfl_xor_sync(kAllLanes, (1ll << 40) + i, 2);
  f[i] = __shfl_xor_sync(kAllLanes, i + 0.25f, 4);
}

TEST_F(OnHost, ShufflesOfAnyType) {
  Buffer<double> d(32);
  Buffer<long long> l(32);
  Buffer<float> f(32);
  launch(shuffle_types, {1, 32}, nullptr, d.data(), l.data(), f.data());
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(d.at(i), (i ^ 1) + 0.5);
    EXPECT_EQ(l.at(i), (1ll << 40) + (i ^ 2));
    EXPECT_EQ(f.at(i), (i ^ 4) + 0.25f);
  }
}

/// Three groups of lanes go their own ways, one of them round a loop.
__global__ void partial_masks(int* y) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < 4) {
    int total = i;
    for (int by = 1; by < 4; by *= 2) total += __shfl_xor_sync(0xfu, total, by);
    y[i] = total;
  } else if (i < 16) {
    y[i] = static_cast<int>(__ballot_sync(0xfff0u, i % 2));
  } else {
    y[i] =
        __all_sync(0xffff0000u, i >= 16) * 100 + __any_sync(0xffff0000u, i > 30) * 10 + __any_sync(0xffff0000u, i > 31);
  }
}

TEST_F(OnHost, PartialMasks) {
  on_host::in_all_orders([] {
    Buffer<int> y(32);
    launch(partial_masks, {1, 32}, nullptr, y.data());
    for (int i = 0; i < 32; ++i) ASSERT_EQ(y.at(i), i < 4 ? 6 : i < 16 ? 0xaaa0 : 110);
  });
}

__global__ void votes(unsigned* y) {
  y[threadIdx.x] = __ballot_sync(kAllLanes, threadIdx.x % 3);
  y[64 + threadIdx.x] = __all_sync(kAllLanes, threadIdx.x < 63) + 2 * __any_sync(kAllLanes, threadIdx.x == 63);
}

TEST_F(OnHost, VotesAreAWarpsOwn) {
  on_host::in_all_orders([] {
    Buffer<unsigned> y(128);
    launch(votes, {1, 64}, nullptr, y.data());
    for (unsigned i = 0; i < 64; ++i) {
      unsigned expected = 0;
      for (unsigned lane = 0; lane < 32; ++lane) expected |= unsigned{(i / 32 * 32 + lane) % 3 != 0} << lane;
      ASSERT_EQ(y.at(i), expected);
      ASSERT_EQ(y.at(64 + i), i < 32 ? 1u : 2u);
    }
  });
}

// ---- matrices of a warp (mma.h)

/// left, right and transposed: what the lanes hold of a, b and b's transpose, [lane][4]; d = a b, parts of it too.
template <class T>
__global__ void multiply_blocks(const float* a, const float* b, uint32_t* left, uint32_t* right, uint32_t* transposed,
                                float* d, float* parts) {
  constexpr int kRow = kBlock + 8;
  T *shared_a = shared_memory<T>(), *shared_b = shared_a + kBlock * kRow, *b_transposed = shared_b + kBlock * kRow;
  const int lane = static_cast<int>(threadIdx.x);
  for (int at = lane; at < kBlock * kBlock; at += kWarp) {
    const int i = at / kBlock, j = at % kBlock;
    shared_a[i * kRow + j] = from_float<T>(a[at]);
    shared_b[i * kRow + j] = b_transposed[j * kRow + i] = from_float<T>(b[at]);
  }
  __syncwarp();
  Left x;
  Right y, z;
  load_left(x, shared_a, kRow);
  load_right(y, shared_b, kRow);
  load_right_of_transposed(z, b_transposed, kRow);
  for (int k = 0; k < 4; ++k)
    left[lane * 4 + k] = x[k], right[lane * 4 + k] = y[k / 2][k % 2], transposed[lane * 4 + k] = z[k / 2][k % 2];
  Block sum = {};
  multiply<T>(sum, x, y);
  for_elements([&](int n, int e, int half, int column) { d[(lane / 4 + 8 * half) * kBlock + column] = sum[n][e]; });
  const RowPart part = row_part_of<T>(sum);
  T elements[8];
  std::memcpy(elements, &part.of, sizeof elements);
  for (int e = 0; e < 8; ++e) parts[part.row * kBlock + part.column + e] = to_float(elements[e]);
}

template <class T>
void expect_product_of_blocks() {
  std::vector<float> a = numbers(256, 1), b = numbers(256, 2), d(256), parts(256);
  for (std::vector<float>* of : {&a, &b})
    for (float& x : *of) x = to_float(from_float<T>(x));
  std::vector<uint32_t> left(128), right(128), transposed(128);
  launch(multiply_blocks<T>, {1, 32, 3 * 16 * 24 * sizeof(T)}, nullptr, a.data(), b.data(), left.data(), right.data(),
         transposed.data(), d.data(), parts.data());
  const auto element = [](uint32_t pair, unsigned which) { return to_float(on_host::half_of<T>(pair, which)); };
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned k = 0; k < 4; ++k)
      for (unsigned e = 0; e < 2; ++e) {
        const unsigned g = lane / 4, t = lane % 4;  // PTX ISA, "matrix fragments for mma.m16n8k16"
        EXPECT_EQ(element(left[lane * 4 + k], e), a[(g + k % 2 * 8) * 16 + 2 * t + e + k / 2 * 8]);
        EXPECT_EQ(element(right[lane * 4 + k], e), b[(2 * t + e + k % 2 * 8) * 16 + g + k / 2 * 8]);
      }
  EXPECT_EQ(transposed, right);
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 16; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 16; ++k) sum = std::fma(a[i * 16 + k], b[k * 16 + j], sum);
      EXPECT_EQ(d[i * 16 + j], sum);
      EXPECT_EQ(parts[i * 16 + j], to_float(from_float<T>(sum)));
    }
}

TEST_F(OnHost, MatricesOfAWarp) {
  on_host::in_all_orders([] {
    expect_product_of_blocks<__nv_bfloat16>();
    expect_product_of_blocks<__half>();
  });
}

__global__ void load_unaligned() {
  uint32_t to[4];
  load_matrices<false>(to, shared_memory<__half>() + 4);
}

__global__ void load_half_a_warp() {
  uint32_t to[4];
  load_matrices<false>(to, shared_memory<__half>());
}

TEST_F(OnHost, MatricesThatAreRefused) {
  EXPECT_EQ(error_of(load_unaligned, {1, 32, 64}), "load_matrices: a row is not aligned to 16 bytes");
  EXPECT_EQ(
      error_of(load_half_a_warp, {1, 16, 256}),
      "block (0, 0, 0): not all threads come: threads 0-15 wait in an operation on matrices with mask 0xffffffff");
}

// ---- atomics, and the fence that hands data from block to block

__global__ void all_atomics(float* f, unsigned* u, int* largest, unsigned* bits, unsigned long long* l) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(f, 0.5f);
  atomicAdd(u, 2u);
  atomicAdd(l, 1ull << 33);
  atomicMax(largest, static_cast<int>(i * 37 % 101));
  atomicOr(bits, 1u << i % 32);
}

TEST_F(OnHost, Atomics) {
  on_host::in_all_orders([] {
    float f = 0;
    unsigned u = 0, bits = 0;
    int largest = -1;
    unsigned long long l = 0;
    launch(all_atomics, {4, 50}, nullptr, &f, &u, &largest, &bits, &l);
    EXPECT_EQ(f, 100);
    EXPECT_EQ(u, 400u);
    EXPECT_EQ(largest, 100);
    EXPECT_EQ(bits, 0xffffffffu);
    EXPECT_EQ(l, 200ull << 33);
  });
}

/// The last block to come adds up what the others left.
__global__ void sum_by_the_last(const float* x, float* parts, unsigned* counter, float* y) {
  if (threadIdx.x > 0) return;
  float part = 0;
  for (unsigned i = 0; i < 10; ++i) part += x[blockIdx.x * 10 + i];
  parts[blockIdx.x] = part;
  __threadfence();
  if (atomicAdd(counter, 1u) != gridDim.x - 1) return;
  __threadfence();
  float total = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) total += parts[b];
  *y = total;
}

TEST_F(OnHost, FenceHandsOverBetweenBlocks) {
  on_host::in_all_orders([] {
    Buffer<float> x(std::vector<float>(70, 1.0f)), parts(7), y(1);
    unsigned counter = 0;
    launch(sum_by_the_last, {7, 32}, nullptr, x.data(), parts.data(), &counter, y.data());
    EXPECT_EQ(y[0], 70);
  });
}

/// Launches of a stream come one after the other, and the host after all of them.
TEST_F(OnHost, LaunchesAreOrdered) {
  on_host::in_all_orders([] {
    Buffer<float> x(numbers(96, 1)), y(96), z(96);
    for (int i = 0; i < 3; ++i) {
      launch(exchange, {3, 32, 64 * sizeof(float)}, nullptr, x.data(), y.data(), 1);
      launch(exchange, {2, 48, 96 * sizeof(float)}, nullptr, y.data(), z.data(), 1);
      x.at(0) = z[0];
    }
  });
}

// ---- bf16 and f16

float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// The value of the 16-bit number with so many bits of exponent and fraction, exactly.
double value_of(unsigned bits, int exponent_bits, int fraction_bits) {
  const unsigned fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const int largest = (1 << exponent_bits) - 1, bias = largest / 2;
  double x = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                           : std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
  // Infinity where the next number would lie: so values beyond the largest one round as they should.
  return bits & 0x8000 ? -x : x;
}

template <class T>
unsigned bits_of(T x) {
  return x.bits;
}

template <class T>
class HalfPrecision : public testing::Test {};
using HalfTypes = testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(HalfPrecision, HalfTypes);

TYPED_TEST(HalfPrecision, EveryValueBetweenAndOnNeighboursRoundsToNearestEven) {
  constexpr bool kBf16 = std::is_same_v<TypeParam, __nv_bfloat16>;
  constexpr int kExponent = kBf16 ? 8 : 5, kFraction = kBf16 ? 7 : 10;
  constexpr unsigned kInfinity = ((1u << kExponent) - 1) << kFraction;
  for (unsigned sign : {0u, 0x8000u})
    for (unsigned bits = sign; bits < sign + kInfinity; ++bits) {
      const double low = value_of(bits, kExponent, kFraction), high = value_of(bits + 1, kExponent, kFraction);
      TypeParam exact;
      exact.bits = static_cast<uint16_t>(bits);
      ASSERT_EQ(to_float(exact), static_cast<float>(low)) << std::hex << bits;
      ASSERT_EQ(std::signbit(to_float(exact)), sign != 0);
      ASSERT_EQ(bits_of(from_float<TypeParam>(static_cast<float>(low))), bits);
      const float middle = static_cast<float>((low + high) / 2);
      ASSERT_EQ(middle, (low + high) / 2);
      ASSERT_EQ(bits_of(from_float<TypeParam>(middle)), bits + bits % 2) << std::hex << bits;
      ASSERT_EQ(bits_of(from_float<TypeParam>(std::nextafter(middle, static_cast<float>(low)))), bits);
      ASSERT_EQ(bits_of(from_float<TypeParam>(std::nextafter(middle, static_cast<float>(2 * high)))), bits + 1);
    }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bits_of(from_float<TypeParam>(infinity)), kInfinity);
  EXPECT_EQ(bits_of(from_float<TypeParam>(-infinity)), 0x8000 | kInfinity);
  EXPECT_EQ(bits_of(from_float<TypeParam>(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(bits_of(from_float<TypeParam>(1e-45f)), 0u);
  EXPECT_EQ(bits_of(from_float<TypeParam>(-1e-45f)), 0x8000u);
  TypeParam x;
  x.bits = kInfinity;
  EXPECT_EQ(to_float(x), infinity);
  x.bits = 0x8000 | kInfinity;
  EXPECT_EQ(to_float(x), -infinity);
}

TYPED_TEST(HalfPrecision, NaNStaysNaN) {
  for (uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu})
    EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(from_bits(bits))))) << std::hex << bits;
  TypeParam poison;
  std::memset(static_cast<void*>(&poison), 0xff, sizeof poison);
  EXPECT_TRUE(std::isnan(to_float(poison)));
}

}  // namespace
}  // namespace ct::kernels
