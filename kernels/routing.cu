#include <cfloat>
#include <cmath>

#include "graph/routing_draws.h"
#include "routing.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 128, kAdders = 256;
constexpr float kLeast = FLT_EPSILON;  // what two weights are divided by

/// What lies in the workspace.
struct Scratch {
  float* probabilities;  // [rows][experts]
  int32_t* chosen;       // [rows * top_k]
  uint32_t* priority;    // [rows]
};
__device__ __forceinline__ Scratch scratch_of(const RouteArgs& a) {
  auto* probabilities = static_cast<float*>(a.workspace);
  auto* chosen = reinterpret_cast<int32_t*>(probabilities + a.shape.rows * a.shape.experts);
  return {probabilities, chosen, reinterpret_cast<uint32_t*>(chosen + a.shape.rows * a.shape.top_k)};
}

/// Calls take(e, probability) for the experts in order.
template <class Take>
__device__ __forceinline__ void softmax(const float* logits, int64_t experts, Take take) {
  float most = logits[0], sum = 0;
  for (int64_t e = 1; e < experts; ++e) most = most < logits[e] ? logits[e] : most;  // NaN shows in the sum
  for (int64_t e = 0; e < experts; ++e) sum += expf(logits[e] - most);
  for (int64_t e = 0; e < experts; ++e) take(e, expf(logits[e] - most) / sum);
}

/// The first of those with the largest logit, or logit and noise, but `except`.
__device__ __forceinline__ int32_t best_of(const RouteArgs& a, int64_t row, int32_t except, bool noisy) {
  const float* logits = a.logits + row * a.shape.stride;
  int32_t best = -1;
  float most = 0;
  for (int32_t e = 0; e < static_cast<int32_t>(a.shape.experts); ++e) {
    if (e == except) continue;
    float value = logits[e];
    if (noisy) {
      const std::array<uint32_t, 4> words = routing_words(*a.key, a.number, row * a.shape.experts + e);
      value += -logf(-logf(uniform_of(words[0])));
    }
    if (best < 0 || value > most) {
      most = value;
      best = e;
    }
  }
  return best;
}

__global__ void __launch_bounds__(kThreads) choose(RouteArgs a) {
  const RouteShape& s = a.shape;
  const Scratch scratch = scratch_of(a);
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x, threads = int64_t{gridDim.x} * kThreads;
  for (int64_t i = row; i < s.experts * s.capacity; i += threads) a.sources[i] = -1;
  if (row >= s.rows) return;
  softmax(a.logits + row * s.stride, s.experts,
          [&](int64_t e, float p) { scratch.probabilities[row * s.experts + e] = p; });
  const int32_t first = best_of(a, row, -1, a.sampled);
  scratch.chosen[row * s.top_k] = first;
  if (s.top_k == 2) scratch.chosen[row * 2 + 1] = best_of(a, row, first, a.key != nullptr);
  const bool drawn = a.key != nullptr && s.top_k == 1;
  scratch.priority[row] = drawn ? routing_words(*a.key, a.number, row * s.experts + first)[1] : 0;
}

/// Loads and their balance, by one block.
__global__ void __launch_bounds__(kAdders) add_loads(RouteArgs a) {
  const RouteShape& s = a.shape;
  const Scratch scratch = scratch_of(a);
  auto* sums = shared_memory<float>();
  auto* counts = shared_memory<int32_t>(kAdders * sizeof(float));
  const int thread = static_cast<int>(threadIdx.x);
  const auto rows = static_cast<float>(s.rows);
  float balance = 0;
  for (int64_t e = 0; e < s.experts; ++e) {
    float sum = 0;
    int32_t count = 0;
    for (int64_t row = thread; row < s.rows; row += kAdders) {
      sum += scratch.probabilities[row * s.experts + e];
      count += scratch.chosen[row * s.top_k] == e ? 1 : 0;
    }
    sums[thread] = sum;
    counts[thread] = count;
    for (int half = kAdders / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) {
        sums[thread] += sums[thread + half];
        counts[thread] += counts[thread + half];
      }
    }
    if (thread == 0) {
      const float load = static_cast<float>(counts[0]) / rows;
      a.load[e] = load;
      balance += load * (sums[0] / rows);
    }
    __syncthreads();
  }
  if (thread == 0 && a.balance != nullptr) *a.balance = balance * static_cast<float>(s.experts);
}

/// A choice's place among those of its expert: how many of these come before it.
__device__ __forceinline__ int64_t place_of(const RouteShape& s, const Scratch& scratch, int64_t row, int choice) {
  const int32_t expert = scratch.chosen[row * s.top_k + choice];
  const uint32_t priority = scratch.priority[row];
  int64_t before = 0;
  for (int64_t other = 0; other < s.rows; ++other)
    for (int i = 0; i <= choice; ++i) {
      if (scratch.chosen[other * s.top_k + i] != expert) continue;
      const uint32_t theirs = scratch.priority[other];
      const bool first = i < choice || theirs > priority || (theirs == priority && other < row);
      before += first ? 1 : 0;
    }
  return before;
}

/// body(i) for a row's choices: so their numbers are in registers.
template <class Body>
__device__ __forceinline__ void for_choices(const RouteShape& s, Body body) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (i < s.top_k) body(i);
}

__global__ void __launch_bounds__(kThreads) place(RouteArgs a) {
  const RouteShape& s = a.shape;
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= s.rows) return;
  const Scratch scratch = scratch_of(a);
  float weights[2] = {0, 0}, sum = 0;
  for_choices(s, [&](int i) {
    const int64_t choice = row * s.top_k + i, expert = scratch.chosen[choice], at = place_of(s, scratch, row, i);
    const bool taken = at < s.capacity;
    a.slots[choice] = taken ? static_cast<int32_t>(expert * s.capacity + at) : -1;
    if (taken) a.sources[expert * s.capacity + at] = static_cast<int32_t>(choice);
    weights[i] = scratch.probabilities[row * s.experts + expert] * (taken ? 1.0f : 0.0f);  // NaN stays
    sum += weights[i];
  });
  const float by = s.top_k == 1 ? 1 : sum < kLeast ? kLeast : sum;
  for_choices(s, [&](int i) { a.weights[row * s.top_k + i] = weights[i] / by; });
}

__global__ void __launch_bounds__(kThreads) logits_grad(RouteGradArgs a) {
  const RouteShape& s = a.shape;
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= s.rows) return;
  const auto balance = static_cast<float>(a.balance_coefficient * (a.loss_scale == nullptr ? 1.0 : *a.loss_scale) *
                                          static_cast<double>(s.experts) / static_cast<double>(s.rows));
  const float* logits = a.logits + row * s.stride;
  float* dlogits = a.dlogits + row * s.stride;
  int64_t expert[2] = {-1, -1};
  float p[2] = {0, 0}, of_choice[2] = {0, 0};
  for_choices(s, [&](int i) {
    if (const int32_t slot = a.slots[row * s.top_k + i]; slot >= 0) expert[i] = slot / s.capacity;
  });
  softmax(logits, s.experts, [&](int64_t e, float probability) {
    for_choices(s, [&](int i) { p[i] = e == expert[i] ? probability : p[i]; });
  });
  const float sum = p[0] + p[1];
  for_choices(s, [&](int i) {
    if (expert[i] < 0) return;
    const float own = a.dweights[row * s.top_k + i];
    if (s.top_k == 1)
      of_choice[i] = own;
    else if (sum <= kLeast)
      of_choice[i] = own / kLeast;
    else if (expert[1 - i] >= 0)  // alone it has the weight 1, whatever its probability
      of_choice[i] = (own - a.dweights[row * 2 + 1 - i]) * p[1 - i] / (sum * sum);
  });
  const auto dp = [&](int64_t e) {
    float d = balance * a.load[e];
    for_choices(s, [&](int i) { d += e == expert[i] ? of_choice[i] : 0; });
    return d;
  };
  float mean = 0;
  softmax(logits, s.experts, [&](int64_t e, float probability) { mean += probability * dp(e); });
  softmax(logits, s.experts, [&](int64_t e, float probability) { dlogits[e] = probability * (dp(e) - mean); });
  for (int64_t e = s.experts; e < s.stride; ++e) dlogits[e] = 0;
}

bool sensible(const RouteShape& s) {
  return s.rows >= 1 && s.rows <= kMostRoutedRows && s.experts >= 1 && s.experts <= kMostExperts &&
         s.stride >= s.experts && s.capacity >= 1 && s.capacity <= s.rows &&
         (s.top_k == 1 || (s.top_k == 2 && s.experts > 1));
}
Grid a_thread_a_row(const RouteShape& s) {
  return {.blocks = static_cast<unsigned>(divide_up<int64_t>(s.rows, kThreads)), .threads = kThreads};
}

}  // namespace

size_t route_workspace_bytes(const RouteShape& s) {
  return static_cast<size_t>(s.rows * (s.experts + s.top_k + 1)) * 4;
}

cudaError_t route(const RouteArgs& a, cudaStream_t stream) {
  if (!sensible(a.shape) || (a.sampled && a.key == nullptr)) return cudaErrorInvalidValue;
  if (const cudaError_t error = launch(choose, a_thread_a_row(a.shape), stream, a); error != cudaSuccess) return error;
  const Grid one{.blocks = 1, .threads = kAdders, .shared_bytes = kAdders * (sizeof(float) + sizeof(int32_t))};
  if (const cudaError_t error = launch(add_loads, one, stream, a); error != cudaSuccess) return error;
  return launch(place, a_thread_a_row(a.shape), stream, a);
}

cudaError_t route_grad(const RouteGradArgs& a, cudaStream_t stream) {
  if (!sensible(a.shape)) return cudaErrorInvalidValue;
  return launch(logits_grad, a_thread_a_row(a.shape), stream, a);
}

}  // namespace ct::kernels
