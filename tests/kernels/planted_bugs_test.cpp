// What the host's execution of kernels is worth: bugs planted into small kernels, each of which must be caught, beside
// twins without the bug, on which all must be silent.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <ostream>
#include <vector>

#include "buffer.h"
#include "last_block.h"
#include "launch.h"
#include "runtime.h"

#ifdef __SANITIZE_THREAD__
/// Else each process waits a second at its end, for races that fibers cannot have.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

namespace ct::kernels {
namespace {

constexpr int kThreads = 96;  // of a block

/// x[i] = i + 1
std::vector<float> counted(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

// ---- missing barrier before a read

template <bool kPlanted>
__global__ void reverse(const float* x, float* y) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  shared[i] = x[i];
  if (!kPlanted) __syncthreads();
  y[i] = shared[blockDim.x - 1 - i];
}

bool reverse_is_right(bool planted) {
  Buffer<float> x(counted(kThreads)), y(kThreads);
  launch(planted ? reverse<true> : reverse<false>, {1, kThreads, kThreads * sizeof(float)}, nullptr, x.data(),
         y.data());
  for (int i = 0; i < kThreads; ++i)
    if (y[i] != x[kThreads - 1 - i]) return false;
  return true;
}

// ---- missing barrier in a loop

template <bool kPlanted>
__global__ void tree_sum(const float* x, float* y) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  shared[i] = x[i];
  __syncthreads();
  for (unsigned n = blockDim.x / 2; n > 0; n /= 2) {
    if (i < n) shared[i] += shared[i + n];
    if (!kPlanted) __syncthreads();
  }
  if (i == 0) *y = shared[0];
}

bool tree_sum_is_right(bool planted) {
  Buffer<float> x(counted(128)), y(1);
  launch(planted ? tree_sum<true> : tree_sum<false>, {1, 128, 128 * sizeof(float)}, nullptr, x.data(), y.data());
  return y[0] == 128 * 129 / 2;
}

// ---- missing barrier at the end of a loop: the next round overwrites what others still read

template <bool kPlanted>
__global__ void rotate(const float* x, float* y, int rounds) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  float value = x[i];
  for (int round = 0; round < rounds; ++round) {
    shared[i] = value;
    __syncthreads();
    value = shared[(i + 1) % blockDim.x];
    if (!kPlanted) __syncthreads();
  }
  y[i] = value;
}

bool rotate_is_right(bool planted) {
  Buffer<float> x(counted(kThreads)), y(kThreads);
  launch(planted ? rotate<true> : rotate<false>, {1, kThreads, kThreads * sizeof(float)}, nullptr, x.data(), y.data(),
         3);
  for (int i = 0; i < kThreads; ++i)
    if (y[i] != x[(i + 3) % kThreads]) return false;
  return true;
}

// ---- missing __syncwarp

template <bool kPlanted>
__global__ void swap_neighbours(const float* x, float* y) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  shared[i] = x[i];
  if (!kPlanted) __syncwarp();
  y[i] = shared[i ^ 1];
}

bool neighbours_are_swapped(bool planted) {
  Buffer<float> x(counted(kThreads)), y(kThreads);
  launch(planted ? swap_neighbours<true> : swap_neighbours<false>, {1, kThreads, kThreads * sizeof(float)}, nullptr,
         x.data(), y.data());
  for (int i = 0; i < kThreads; ++i)
    if (y[i] != x[i ^ 1]) return false;
  return true;
}

// ---- a shuffle taken for a __syncwarp: lanes meet there, but it orders no memory accesses

template <bool kPlanted>
__global__ void add_neighbours(const float* x, float* y) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  shared[i] = x[i];
  const float from_lane = __shfl_xor_sync(kAllLanes, x[i], 1);
  if (!kPlanted) __syncwarp();
  y[i] = from_lane + shared[i ^ 2];
}

bool neighbours_are_added(bool planted) {
  Buffer<float> x(counted(kThreads)), y(kThreads);
  launch(planted ? add_neighbours<true> : add_neighbours<false>, {1, kThreads, kThreads * sizeof(float)}, nullptr,
         x.data(), y.data());
  for (int i = 0; i < kThreads; ++i)
    if (y[i] != x[i ^ 1] + x[i ^ 2]) return false;
  return true;
}

// ---- divergent barrier

template <bool kPlanted>
__global__ void first_half(const float* x, float* y) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x, half = blockDim.x / 2;
  if (i < half) {
    shared[i] = x[i];
    if (kPlanted) __syncthreads();
  }
  if (!kPlanted) __syncthreads();
  if (i < half) y[i] = shared[half - 1 - i];
}

bool first_half_is_right(bool planted) {
  Buffer<float> x(counted(kThreads)), y(kThreads / 2);
  launch(planted ? first_half<true> : first_half<false>, {1, kThreads, kThreads * sizeof(float)}, nullptr, x.data(),
         y.data());
  for (int i = 0; i < kThreads / 2; ++i)
    if (y[i] != x[kThreads / 2 - 1 - i]) return false;
  return true;
}

// ---- a barrier in each branch: not the same one

template <bool kPlanted>
__global__ void both_halves(const float* x, float* y) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  if (i < blockDim.x / 2) {
    shared[i] = x[i];
    if (kPlanted) __syncthreads();
  } else {
    shared[i] = -x[i];
    if (kPlanted) __syncthreads();
  }
  if (!kPlanted) __syncthreads();
  y[i] = shared[blockDim.x - 1 - i];
}

bool both_halves_are_right(bool planted) {
  Buffer<float> x(counted(kThreads)), y(kThreads);
  launch(planted ? both_halves<true> : both_halves<false>, {1, kThreads, kThreads * sizeof(float)}, nullptr, x.data(),
         y.data());
  for (int i = 0; i < kThreads; ++i)
    if (y[i] != (i < kThreads / 2 ? -1 : 1) * x[kThreads - 1 - i]) return false;
  return true;
}

// ---- two blocks writing one word

template <bool kPlanted>
__global__ void number_tiles(float* y, int tiles) {
  constexpr int kTile = 32;
  const int i = static_cast<int>(threadIdx.x), at = static_cast<int>(blockIdx.x) * kTile + i;
  if (i < kTile + kPlanted && at < tiles * kTile) y[at] = static_cast<float>(blockIdx.x);
}

bool tiles_are_numbered(bool planted) {
  Buffer<float> y(4 * 32);
  launch(planted ? number_tiles<true> : number_tiles<false>, {4, 64}, nullptr, y.data(), 4);
  for (int i = 0; i < 4 * 32; ++i)
    if (y[i] != i / 32) return false;
  return true;
}

// ---- a sum without atomics

template <bool kPlanted>
__global__ void sum(const float* x, float* y) {
  const float value = x[blockIdx.x * blockDim.x + threadIdx.x];
  if (kPlanted)
    *y += value;
  else
    atomicAdd(y, value);
}

bool sum_is_right(bool planted) {
  Buffer<float> x(counted(3 * kThreads)), y(std::vector<float>{0});
  launch(planted ? sum<true> : sum<false>, {3, kThreads}, nullptr, x.data(), y.data());
  return y[0] == 3 * kThreads * (3 * kThreads + 1) / 2;
}

// ---- off by one in shared memory: behind its last page, or behind its end but within the alignment

template <bool kPlanted>
__global__ void copy_through_shared(const float* x, float* y) {
  float* shared = shared_memory<float>() + kPlanted;
  const unsigned i = threadIdx.x;
  shared[i] = x[i];
  __syncthreads();
  y[i] = shared[i];
}

template <unsigned kN>
bool copy_is_right(bool planted) {
  Buffer<float> x(counted(kN)), y(kN);
  launch(planted ? copy_through_shared<true> : copy_through_shared<false>, {1, kN, kN * sizeof(float)}, nullptr,
         x.data(), y.data());
  return x.bytes() == y.bytes();
}

// ---- off by one in global memory: read, written

template <bool kPlanted>
__global__ void differences(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = i < n - 1 + kPlanted ? x[i + 1] - x[i] : 0;
}

bool differences_are_right(bool planted) {
  const std::vector<float> counts = counted(50);
  const Operand<float> x(counts.begin(), counts.end());
  Buffer<float> y(50);
  launch(planted ? differences<true> : differences<false>, {2, 32}, nullptr, x.data(), y.data(), 50);
  for (int i = 0; i < 49; ++i)
    if (y[i] != 1) return false;
  return y[49] == 0;
}

template <bool kPlanted>
__global__ void fill(float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n + kPlanted) y[i] = 1;
}

bool fill_is_right(bool planted) {
  Buffer<float> y(50);
  launch(planted ? fill<true> : fill<false>, {2, 32}, nullptr, y.data(), 50);
  return y.intact() && y[49] == 1;
}

// ---- an access that its address is not aligned for

template <int N>
__global__ void copy_packs(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n / N) reinterpret_cast<Pack<float, N>*>(y)[i] = reinterpret_cast<const Pack<float, N>*>(x)[i];
}

bool packs_are_copied(bool planted) {
  Buffer<float> x(counted(64), /*shift=*/1), y(64);
  launch(planted ? copy_packs<4> : copy_packs<1>, {1, 64}, nullptr, x.data(), y.data(), 64);
  return y.values() == counted(64);
}

// ---- unset shared memory read

template <bool kPlanted>
__global__ void padded_sum(const float* x, float* y, unsigned n) {
  float* shared = shared_memory<float>();
  const unsigned i = threadIdx.x;
  if (i < n) shared[i] = x[i];
  if (!kPlanted && i >= n) shared[i] = 0;
  __syncthreads();
  if (i == 0) {
    float total = 0;
    for (unsigned j = 0; j < blockDim.x; ++j) total += shared[j];
    *y = total;
  }
}

bool padded_sum_is_right(bool planted) {
  Buffer<float> x(counted(50)), y(1);
  launch(planted ? padded_sum<true> : padded_sum<false>, {1, 64, 64 * sizeof(float)}, nullptr, x.data(), y.data(), 50u);
  return y[0] == 50 * 51 / 2;
}

// ---- wrong shuffle mask

template <bool kPlanted>
__global__ void half_warp_sum(const float* x, float* y) {
  const unsigned i = threadIdx.x;
  if (i >= 16) return;
  float value = x[i];
  for (unsigned n = 8; n > 0; n /= 2) value += __shfl_down_sync(kPlanted ? kAllLanes : 0xffffu, value, n, 16);
  if (i == 0) *y = value;
}

bool half_warp_sum_is_right(bool planted) {
  Buffer<float> x(counted(16)), y(1);
  launch(planted ? half_warp_sum<true> : half_warp_sum<false>, {1, 32}, nullptr, x.data(), y.data());
  return y[0] == 16 * 17 / 2;
}

// ---- what the last block adds: by the first block; counted before the block has written; in the order of arrival;
// with a ticket that is not set back

enum class Merge { right, by_the_first, counted_too_early, as_they_arrive, ticket_is_left };

template <Merge kMerge>
__device__ bool merges(unsigned* ticket, int* shared) {
  if (kMerge == Merge::right || kMerge == Merge::counted_too_early) return is_last_block(ticket, gridDim.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned before = atomicAdd(ticket, 1u);
    *shared = before == (kMerge == Merge::by_the_first ? 0 : gridDim.x - 1);
    if (kMerge != Merge::ticket_is_left && before == gridDim.x - 1) *ticket = 0;
    __threadfence();
  }
  __syncthreads();
  return *shared != 0;
}

/// Parts are a block's sums of x, and their places.
template <Merge kMerge>
__global__ void sum_of_parts(const float* x, float* parts, unsigned* places, unsigned* ticket, float* y) {
  float* shared = shared_memory<float>();
  auto* answer = shared_memory<int>();
  const bool early = kMerge == Merge::counted_too_early && merges<kMerge>(ticket, answer);
  shared[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += shared[i];
    parts[kMerge == Merge::as_they_arrive ? atomicAdd(places, 1u) % gridDim.x : blockIdx.x] = sum;
  }
  __syncthreads();
  if (!(kMerge == Merge::counted_too_early ? early : merges<kMerge>(ticket, answer))) return;
  if (threadIdx.x == 0) {
    const volatile float* written = parts;
    *y = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) *y += written[i];
  }
}

/// Two launches, of `blocks` blocks.
template <Merge kMerge>
bool sum_of_parts_is_right(int blocks) {
  Buffer<float> x(numbers(static_cast<size_t>(blocks * kThreads), 1)), parts(static_cast<size_t>(blocks)), y(1);
  Buffer<unsigned> places(1), ticket(1);
  places.at(0) = ticket.at(0) = 0;
  for (int launched = 0; launched < 2; ++launched) {
    float expected = 0;
    for (int block = 0; block < blocks; ++block) {
      float sum = 0;
      for (int i = 0; i < kThreads; ++i) sum += x[block * kThreads + i];
      expected += sum;
      parts.at(block) = -1;
    }
    launch(sum_of_parts<kMerge>, {static_cast<unsigned>(blocks), kThreads, kThreads * sizeof(float)}, nullptr, x.data(),
           parts.data(), places.data(), ticket.data(), y.data());
    if (y[0] != expected) return false;
    for (int i = 0; i < blocks * kThreads; ++i) x.at(i) *= 2;
  }
  return true;
}

template <Merge kMerge>
bool sums_of_parts_are_right(bool planted) {
  for (const int blocks : {3, 5, 7, 12})
    if (!(planted ? sum_of_parts_is_right<kMerge>(blocks) : sum_of_parts_is_right<Merge::right>(blocks))) return false;
  return true;
}

// ---- the bugs, and what catches them

enum Catcher : unsigned { results = 1, error = 2, asan = 4, tsan = 8, crash = 16, misaligned = 32 };

#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned kInThisBuild = results | error | crash | misaligned | asan;
#elif defined(__SANITIZE_THREAD__)
constexpr unsigned kInThisBuild = results | error | crash | misaligned | tsan;
#else
constexpr unsigned kInThisBuild = results | error | crash | misaligned;
#endif

const char* message_of(Catcher catcher) {
  switch (catcher) {
    case results:
      return "wrong results";
    case error:
      return "on_host::Error: block";
    case asan:
      return "ERROR: AddressSanitizer: use-after-poison";
    case tsan:
      return "WARNING: ThreadSanitizer: data race";
    case misaligned:
      return "misaligned address";
    case crash:
      return "";
  }
  return "";
}

struct Bug {
  const char* name;
  unsigned caught_by;  // Catchers, each of which must see it
  bool (*is_right)(bool planted);
};

void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

const Bug kBugs[] = {
    {"missing_barrier_before_a_read", results | tsan, reverse_is_right},
    {"missing_barrier_in_a_loop", results | tsan, tree_sum_is_right},
    {"missing_barrier_at_the_end_of_a_loop", results | tsan, rotate_is_right},
    {"missing_syncwarp", results | tsan, neighbours_are_swapped},
    {"shuffle_taken_for_a_syncwarp", tsan, neighbours_are_added},
    {"divergent_barrier", error, first_half_is_right},
    {"a_barrier_in_each_branch", error, both_halves_are_right},
    {"two_blocks_writing_one_word", results | tsan, tiles_are_numbered},
    {"sum_without_atomics", tsan, sum_is_right},
    {"off_by_one_in_shared_memory", crash, copy_is_right<96>},
    {"off_by_one_in_unaligned_shared_memory", error, copy_is_right<97>},
    {"off_by_one_in_global_memory_read", results | asan, differences_are_right},
    {"off_by_one_in_global_memory_written", results, fill_is_right},
    {"wide_access_at_an_odd_address", misaligned, packs_are_copied},
    {"unset_shared_memory_read", results, padded_sum_is_right},
    {"wrong_shuffle_mask", error, half_warp_sum_is_right},
    {"the_first_block_merges", results | tsan, sums_of_parts_are_right<Merge::by_the_first>},
    {"a_block_counts_before_it_has_written", results | tsan, sums_of_parts_are_right<Merge::counted_too_early>},
    {"parts_merged_as_they_arrive", results, sums_of_parts_are_right<Merge::as_they_arrive>},
    {"ticket_is_not_set_back", results, sums_of_parts_are_right<Merge::ticket_is_left>},
};

/// Ends the process: with 0 if nothing but a sanitizer has anything to say.
[[noreturn]] void run_and_exit(const Bug& bug, bool planted) {
  bool right = true;
  on_host::runtime_options().own_memory = true;
  try {
    on_host::in_all_orders([&] { right &= bug.is_right(planted); });
  } catch (const on_host::Error& e) {
    std::fprintf(stderr, "on_host::Error: %s\n", e.what());
    std::exit(4);
  }
  if (!right) std::fprintf(stderr, "wrong results\n");
  std::exit(right ? 0 : 3);
}

bool exited_with_complaint(int status) { return !testing::ExitedWithCode(0)(status); }

class PlantedBugDeathTest : public testing::TestWithParam<Bug> {
 protected:
  // A process of its own: ThreadSanitizer does not go on watching in a copy of one that had fibers.
  PlantedBugDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(PlantedBugDeathTest, IsCaught) {
  const Bug& bug = GetParam();
  if (!(bug.caught_by & kInThisBuild))
    GTEST_SKIP() << bug.name << ": only ThreadSanitizer sees it, which this build is without";
  for (Catcher catcher : {results, error, asan, tsan, crash, misaligned}) {
    if (!(bug.caught_by & kInThisBuild & catcher)) continue;
    // A sanitizer may end the process at its first report (halt_on_error), before the results are compared.
    if (catcher == results && (bug.caught_by & kInThisBuild & (asan | tsan))) continue;
    EXPECT_EXIT(run_and_exit(bug, true), exited_with_complaint, message_of(catcher));
  }
}

TEST_P(PlantedBugDeathTest, TwinIsSilent) {
  EXPECT_EXIT(run_and_exit(GetParam(), false), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Kernels, PlantedBugDeathTest, testing::ValuesIn(kBugs),
                         [](const auto& bug) { return bug.param.name; });

}  // namespace
}  // namespace ct::kernels
